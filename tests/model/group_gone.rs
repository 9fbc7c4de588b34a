//! The model of groups: queue entries that are lost while their heads are polled, and releases that nobody hears of.

use super::groups::{Groups, Message, Owner, Place, Rule, State, Step, Task, Text};

impl State {
    /// Returns the owner of a group whose entry in the queue is gone, and was not granted.
    fn gone(&self, (i, at): (usize, usize)) -> Option<Owner> {
        let group = &self.processes[i].groups[at];
        let Place::Queued(owner) = group.place else { return None };
        let told =
            self.net.iter().any(|Message(of, text)| *of == owner && matches!(text, Text::Granted { .. }));
        let is_gone = !self.knows(owner) && !told && !group.left && group.again.is_none();
        (is_gone && !group.members.is_empty()).then_some(owner)
    }

    /// The store loses the queue entry of a group. Its tasks have no place any more.
    pub(crate) fn forget(&mut self, i: usize, at: usize) {
        self.forgets -= 1;
        let group = &self.processes[i].groups[at];
        let Place::Queued(owner) = group.place else { return };
        let members = group.members.clone();
        self.queue.retain(|other| *other != owner);
        self.unplaced(&members);
    }

    /// Tasks are added to a group. Where its entry is lost, they have lost their places with it: they have that for which
    /// its head asks, if the store has it already.
    pub(crate) fn stand_behind(&mut self, (i, at): (usize, usize), tasks: &[Task]) {
        let group = &self.processes[i].groups[at];
        let Place::Queued(owner) = group.place else { return };
        if self.knows(owner) && group.again.is_none() {
            return;
        }
        let last = self.places.iter().rposition(|task| group.members.contains(task));
        let last = last.map(|last| self.places[last]);
        self.unplaced(tasks);
        if let Some(last) = self.places.iter().position(|task| Some(*task) == last) {
            self.places.splice(last + 1..last + 1, tasks.iter().copied());
        }
    }

    /// A group waits no longer for the release of its grant, which is late. Whoever is told to stand behind the owner that it names is
    /// told so of what may be given up.
    pub(crate) fn outwait(&mut self, i: usize, at: usize) {
        self.calm = false;
        self.processes[i].groups[at].follows();
    }

    /// The head learns that its entry is gone. It asks for another one with an owner that shares nothing, and the old
    /// owner is released meanwhile.
    pub(crate) fn again(&mut self, i: usize, at: usize) {
        let Some(old) = self.gone((i, at)) else { return };
        self.send(old, Text::Release);
        // A release that is late has not made the entry yet, and does not make it any more: the place is lost.
        let members = self.processes[i].groups[at].members.clone();
        self.unplaced(&members);
        let owner = self.mint(i, true);
        self.processes[i].groups[at].again = Some(owner);
        self.send(owner, Text::Ask);
    }
}

impl Groups {
    /// Returns whether nothing goes wrong, and nobody gives up.
    pub(crate) fn is_calm(&self) -> bool {
        let size = &self.0;
        [size.leaves, size.unanswered, size.losses, size.skips, size.failures, size.refusals, size.forgets]
            == [0; 7]
    }

    /// The steps of a group that may lose its entry, or has.
    pub(crate) fn steps_of_lost(&self, state: &State, (i, at): (usize, usize), steps: &mut Vec<Step>) {
        let group = &state.processes[i].groups[at];
        if self.outwaits(state, i, at) {
            steps.push(Step::Outwait(i, at));
        }
        let Place::Queued(owner) = group.place else { return };
        if state.forgets > 0 && state.queue.contains(&owner) && !group.left {
            steps.push(Step::Forget(i, at));
        }
        if state.gone((i, at)).is_some() {
            steps.push(Step::Again(i, at));
        }
    }

    /// Returns whether a group need not wait for the release of its grant any more.
    pub(crate) fn outwaits(&self, state: &State, i: usize, at: usize) -> bool {
        let is_ended = matches!(state.processes[i].groups[at].place, Place::Ended(_));
        is_ended && self.has(Rule::ReleaseIsOutwaited)
    }

    /// Lets a group do what it does in the end: learn of a lost entry, or wait no longer.
    pub(crate) fn goes_on(&self, state: &mut State, i: usize) -> bool {
        for at in 0..state.processes[i].groups.len() {
            if self.outwaits(state, i, at) {
                state.outwait(i, at);
                return true;
            }
            if state.gone((i, at)).is_some() {
                state.again(i, at);
                return true;
            }
        }
        false
    }
}
