//! The model of groups: tasks that are not polled, cannot use their grant, or cannot hand it on.

use super::groups::{Away, Groups, Owner, Place, Rule, State, Text};

impl State {
    /// Returns whether the store has a place or a grant of this owner.
    pub(crate) fn knows(&self, owner: Owner) -> bool {
        self.holder == Some(owner) || self.queue.contains(&owner)
    }

    pub(crate) fn begin(&mut self, i: usize) {
        if let Some(works) = &mut self.processes[i].works {
            works.begins = false;
        }
    }

    /// The store forgets what a task that is not polled has there.
    pub(crate) fn expire(&mut self, i: usize, at: usize) {
        let away = &mut self.processes[i].away[at];
        let Some(owner) = away.owner.take() else { return };
        away.queued = false;
        self.released.insert(owner);
        self.queue.retain(|other| *other != owner);
        if self.holder.take_if(|holder| *holder == owner).is_some() {
            self.serve_queue();
        }
    }
}

impl Groups {
    /// The holder releases to the store. Those behind it wait for the end of the grant, and ask then. `hears`: the
    /// future that releases is polled until it is answered.
    pub(crate) fn refuse(&self, state: &mut State, i: usize, hears: bool) {
        state.refusals -= 1;
        let Some(works) = state.processes[i].works.take() else { return };
        state.send(works.owner, Text::Release);
        if !hears {
            state.unheard.insert(works.owner);
        }
        let Some((i, at)) = state.find(works.owner) else { return };
        let group = &mut state.processes[i].groups[at];
        group.place = Place::Ended(works.owner);
        let members = group.members.clone();
        if members.is_empty() {
            state.processes[i].groups.remove(at);
        } else if self.has(Rule::LostGoesBack) {
            state.unplaced(&members);
        }
    }

    /// The task that has the key gets no token, or gives up while its lease is renewed.
    pub(crate) fn fail(&self, state: &mut State, i: usize) {
        state.failures -= 1;
        let Some(works) = state.processes[i].works.take() else { return };
        if !self.has(Rule::FailedPassesOn) {
            return state.send(works.owner, Text::Release);
        }
        if let Some((i, at)) = state.find(works.owner) {
            self.go_on(state, i, at);
        }
    }

    /// The head of a group is not polled: it is in no group from now on.
    pub(crate) fn skip(&self, state: &mut State, i: usize, at: usize) {
        state.skips -= 1;
        let process = &mut state.processes[i];
        let group = &mut process.groups[at];
        let task = group.members.remove(0);
        let (mut away, is_empty) =
            (Away { task, owner: None, queued: false, back: false }, group.members.is_empty());
        let mut goes = is_empty;
        match group.place {
            _ if group.again.is_some() => (away.owner, group.place) = (group.again.take(), Place::None),
            Place::Queued(owner) if group.left && is_empty => state.send(owner, Text::Release),
            Place::Queued(owner) if group.left => self.entry_goes_on(state, (i, at), owner),
            Place::Queued(owner) => {
                (away.owner, away.queued) = (Some(owner), true);
                if self.has(Rule::SkippedTakesPlace) {
                    group.place = Place::None;
                }
            }
            Place::Asked(owner) => {
                away.owner = Some(owner);
                group.place = Place::None;
            }
            Place::Held(_) => goes = false,
            Place::Ended(_) if group.next.is_some() && !group.left => {
                (away.owner, away.queued) = (group.next.take(), true);
            }
            Place::Ended(_) if is_empty => {
                if let Some(next) = group.next.take() {
                    state.send(next, Text::Release);
                }
            }
            Place::None | Place::Ended(_) => {}
        }
        let process = &mut state.processes[i];
        process.away.push(away);
        if goes {
            process.groups.remove(at);
        }
        self.no_answer(state, i);
    }

    /// A task that was skipped is polled again. What is in the store's queue for it is a place of its own.
    pub(crate) fn back(&self, state: &mut State, i: usize, at: usize) {
        let away = state.processes[i].away[at].clone();
        match away.owner {
            Some(owner) if away.queued && state.find(owner).is_none() => {
                let process = &mut state.processes[i];
                process.away.remove(at);
                process.open(vec![away.task], Place::Queued(owner));
            }
            Some(_) if !away.queued => state.processes[i].away[at].back = true,
            _ => {
                state.processes[i].away.remove(at);
                self.gathers(state, i, away.task);
            }
        }
    }

    /// Takes the answer to a task that was skipped meanwhile, and is polled again.
    pub(crate) fn hear_skipped(&self, state: &mut State, owner: Owner, text: &Text) {
        let Some((i, at)) = state.away(owner) else { return };
        let away = state.processes[i].away.remove(at);
        match text {
            Text::Queued => {
                state.processes[i].open(vec![away.task], Place::Queued(owner));
            }
            Text::Granted { others } => {
                let process = &mut state.processes[i];
                let at = process.open(vec![away.task], Place::Held(owner));
                (process.groups[at].contended, process.groups[at].overtaken) = (*others, process.awaits());
                self.go_on(state, i, at);
            }
            Text::Behind(last) if !self.has(Rule::SkippedIsAlone) => {
                let at = state.processes[i].open(vec![away.task], Place::Asked(owner));
                self.behind(state, (i, at), *last);
            }
            Text::Behind(_) => self.gathers(state, i, away.task),
            Text::Ask | Text::Release | Text::ReleaseTo(_) | Text::Freed => {
                state.processes[i].away.insert(at, away)
            }
        }
    }
}
