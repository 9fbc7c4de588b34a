//! The model of groups: grants that a transaction has verified. They go back to the store, because nobody but the store knows when
//! that transaction ends.

use super::groups::{Group, Groups, Message, Owner, Place, Rule, State, Text};

impl Group {
    /// The release of its grant is answered, or is late: it has the place that the release has named, if there is one.
    pub(crate) fn follows(&mut self) {
        match self.next.take() {
            Some(next) => self.place = Place::Queued(next),
            None => (self.place, self.left) = (Place::None, false),
        }
    }
}

impl State {
    /// The grant of this owner is lost. A release of it that is under way makes no entry.
    pub(crate) fn names_nobody(&mut self, owner: Owner) {
        let named = |Message(of, text): &Message| match text {
            Text::ReleaseTo(next) if *of == owner => Some(*next),
            _ => None,
        };
        let Some((i, at)) = self.net.iter().find_map(named).and_then(|next| self.find(next)) else { return };
        let group = &self.processes[i].groups[at];
        if group.again.is_none() {
            let members = group.members.clone();
            self.unplaced(&members);
        }
    }
}

impl Groups {
    /// The holder releases to the store, and names an owner for those who share its place. The head of its group has the entry of that
    /// owner from now on.
    pub(crate) fn verify(&self, state: &mut State, i: usize) {
        state.verified -= 1;
        let Some(works) = state.processes[i].works.take() else { return };
        let Some((i, at)) = state.find(works.owner) else { return };
        state.processes[i].groups[at].place = Place::Ended(works.owner);
        if state.processes[i].groups[at].members.is_empty() {
            let groups = &mut state.processes[i].groups;
            groups.remove(at);
            // There is nobody yet for whom an owner could be named.
            groups.iter_mut().for_each(|group| group.races |= matches!(group.place, Place::Asked(_)));
            return state.send(works.owner, Text::Release);
        }
        if !self.has(Rule::SuccessorIsNamed) {
            return state.send(works.owner, Text::Release);
        }
        let next = state.mint(i, false);
        let group = &mut state.processes[i].groups[at];
        (group.next, group.left) = (Some(next), true);
        state.send(works.owner, Text::ReleaseTo(next));
    }

    /// Executes such a release. `next` may have been released before, by those who gave up: that is repeated, so it has no effect here.
    pub(crate) fn serve_next(&self, state: &mut State, owner: Owner, next: Owner) {
        state.released.insert(owner);
        if state.holder.take_if(|holder| *holder == owner).is_some() {
            if !state.released.contains(&next) {
                let at = if self.has(Rule::SuccessorIsFirst) { 0 } else { state.queue.len() };
                state.queue.insert(at, next);
            }
            state.serve_queue();
        }
        if state.find(owner).is_some() {
            state.send(owner, Text::Freed);
        }
    }
}
