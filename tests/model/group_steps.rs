//! The steps of the model of groups: what tasks and their process do, and how they hear of the scripts.

use super::groups::{Group, Groups, Message, Owner, PROGRESS, Place, Process, Rule, State, Task, Text, Work};

impl Groups {
    pub(crate) fn has(&self, rule: Rule) -> bool {
        !self.0.without.contains(&rule)
    }

    pub(crate) fn join(&self, state: &mut State, i: usize) {
        let process = &mut state.processes[i];
        let task = (u8::try_from(i).expect("BUG: few"), process.joined);
        (process.left, process.joined) = (process.left - 1, process.joined + 1);
        self.gathers(state, i, task);
        if !self.has(Rule::ClosedBySending) {
            // It has its place now, whoever believes otherwise.
            state.places.push(task);
        }
    }

    /// Adds a task to the last group, or to a new one.
    pub(crate) fn gathers(&self, state: &mut State, i: usize, task: Task) {
        let process = &mut state.processes[i];
        let is_open = |group: &&mut Group| match group.place {
            Place::None => group.again.is_none() || !self.has(Rule::AgainIsClosed),
            Place::Asked(_) | Place::Queued(_) => !self.has(Rule::ClosedBySending),
            Place::Held(_) | Place::Ended(_) => false,
        };
        match process.groups.last_mut().filter(is_open) {
            Some(group) => group.members.push(task),
            None => drop(process.open(vec![task], Place::None)),
        }
    }

    /// Returns the group that asks next.
    pub(crate) fn asks_next(&self, process: &Process) -> Option<usize> {
        if process.asks() && self.has(Rule::OneAtATime) {
            return None;
        }
        let none = |group: &Group| group.place == Place::None && group.again.is_none();
        if !self.has(Rule::EarliestFirst) {
            return process.groups.iter().rposition(none);
        }
        let ended = process.groups.iter().any(|group| matches!(group.place, Place::Ended(_)));
        if ended { None } else { process.groups.iter().position(none) }
    }

    /// Goes on with the group that holds: hands the grant to the next of it, keeps it, or releases it.
    pub(crate) fn go_on(&self, state: &mut State, i: usize, at: usize) {
        let process = &mut state.processes[i];
        let Place::Held(owner) = process.groups[at].place else { return };
        if !process.groups[at].members.is_empty() {
            let hands = self.has(Rule::HandedOnce);
            let members = &mut process.groups[at].members;
            let task = if hands { members.remove(0) } else { members[0] };
            return state.start(task, owner);
        }
        let others = process.groups.iter().any(|group| matches!(group.place, Place::Queued(_)));
        let Group { contended, overtaken, .. } = process.groups[at];
        let earlier = self.has(Rule::KeptForEarlier) && overtaken.is_some() && overtaken == process.awaits();
        if contended && !earlier || others || !process.asks() {
            process.groups.remove(at);
            state.send(owner, Text::Release);
        }
    }

    /// Releases a grant that was kept, once no request is unanswered for which it could be.
    pub(crate) fn end_kept(&self, state: &mut State, i: usize) {
        let process = &mut state.processes[i];
        let Some(at) = process.kept().filter(|_| !process.asks()) else { return };
        let Place::Held(owner) = process.groups.remove(at).place else { return };
        state.send(owner, Text::Release);
    }

    pub(crate) fn finish(&self, state: &mut State, i: usize) {
        let Some(Work { owner, .. }) = state.processes[i].works.take() else { return };
        if let Some((i, at)) = state.find(owner) {
            self.go_on(state, i, at);
        }
    }

    pub(crate) fn leave(&self, state: &mut State, (i, at, member): (usize, usize, usize)) {
        state.leaves -= 1;
        let group = &mut state.processes[i].groups[at];
        let task = group.members.remove(member);
        let (was_head, is_empty) = (member == 0, group.members.is_empty());
        state.unplaced(&[task]);
        let group = &mut state.processes[i].groups[at];
        if let Some(owner) = group.again.take_if(|_| was_head) {
            group.place = Place::None;
            state.send(owner, Text::Release);
        }
        let group = &mut state.processes[i].groups[at];
        match group.place {
            Place::Held(_) => return,
            Place::Asked(owner) if was_head => {
                group.place = Place::None;
                state.send(owner, Text::Release);
            }
            Place::Queued(owner) if is_empty => {
                state.send(owner, Text::Release);
                if !self.has(Rule::LeavesFirst) {
                    return;
                }
            }
            Place::Ended(_) if is_empty => {
                if let Some(next) = group.next.take() {
                    state.send(next, Text::Release);
                }
            }
            Place::Queued(_) if was_head && !group.left => group.left = true,
            Place::Ended(_) if was_head && group.next.is_some() => group.left = true,
            Place::Queued(owner) if was_head => self.entry_goes_on(state, (i, at), owner),
            Place::None | Place::Asked(_) | Place::Queued(_) | Place::Ended(_) => {}
        }
        if is_empty {
            state.processes[i].groups.remove(at);
        }
        self.no_answer(state, i);
    }

    /// The head is gone that had not taken over the entry it was left.
    pub(crate) fn entry_goes_on(&self, state: &mut State, (i, at): (usize, usize), owner: Owner) {
        if !self.has(Rule::EntryGoesOn) {
            state.processes[i].groups[at].left = false;
            state.send(owner, Text::Release);
        }
    }

    /// Notes that a request has no answer any more.
    pub(crate) fn no_answer(&self, state: &mut State, i: usize) {
        if self.has(Rule::KeptForAnswer) {
            self.end_kept(state, i);
        }
    }

    pub(crate) fn unanswered(&self, state: &mut State, i: usize, at: usize) {
        state.unanswered -= 1;
        let group = &mut state.processes[i].groups[at];
        let ((Some(owner), _) | (None, Place::Asked(owner))) = (group.again.take(), group.place) else {
            return;
        };
        group.place = Place::None;
        state.send(owner, Text::Release);
        self.no_answer(state, i);
    }

    pub(crate) fn lose(&self, state: &mut State, i: usize) {
        state.losses -= 1;
        let Some(owner) = state.holder.take_if(|owner| usize::from(owner.process) == i) else { return };
        state.released.insert(owner);
        state.names_nobody(owner);
        if let Some((_, at)) = state.away(owner) {
            let away = &mut state.processes[i].away[at];
            (away.owner, away.queued, away.back) = (None, false, false);
        }
        // Who asks again has given the owner up, and is not told of its loss.
        let is_its = |at: usize| state.processes[i].groups[at].again.is_none_or(|again| again == owner);
        if let Some((_, at)) = state.find(owner).filter(|(_, at)| is_its(*at)) {
            let process = &mut state.processes[i];
            let works = process.works.take();
            let group = &mut process.groups[at];
            let is_empty = group.members.is_empty();
            if !self.has(Rule::LostAsksAgain) && works.is_some() && !is_empty {
                self.go_on(state, i, at);
            } else {
                (group.place, group.left, group.again, group.next) = (Place::None, false, None, None);
                if is_empty {
                    process.groups.remove(at);
                }
            }
        }
        state.serve_queue();
    }

    /// Executes a script.
    fn serve(&self, state: &mut State, owner: Owner, text: &Text) {
        match text {
            Text::Ask if state.released.contains(&owner) => {}
            Text::Ask => {
                state.serve_queue();
                let Some(holder) = state.holder else {
                    state.placed(owner);
                    return state.grant(owner);
                };
                let by_last = self.has(Rule::BehindLast);
                let last = *state.queue.last().filter(|_| by_last).unwrap_or(&holder);
                state.placed(owner);
                if last.process == owner.process && !last.strict && !owner.strict {
                    return state.send(owner, Text::Behind(last));
                }
                state.queue.push(owner);
                state.send(owner, Text::Queued);
            }
            Text::Release => {
                state.released.insert(owner);
                state.queue.retain(|other| *other != owner);
                let names = self.has(Rule::ReleaseNamesOwner);
                let is_its =
                    |holder: &mut Owner| *holder == owner || !names && holder.process == owner.process;
                if state.holder.take_if(is_its).is_some() {
                    state.serve_queue();
                }
                if state.find(owner).is_some() && !state.unheard.contains(&owner) {
                    state.send(owner, Text::Freed);
                }
            }
            Text::ReleaseTo(next) => self.serve_next(state, owner, *next),
            Text::Granted { .. } | Text::Queued | Text::Behind(_) | Text::Freed => {}
        }
    }

    /// Takes an answer, or a push.
    fn hear(&self, state: &mut State, owner: Owner, text: &Text) {
        let Some((i, at)) = state.find(owner) else { return self.hear_skipped(state, owner, text) };
        let awaits = state.processes[i].awaits();
        let group = &mut state.processes[i].groups[at];
        let is_answer = matches!(text, Text::Queued | Text::Granted { .. });
        let is_again = group.again.take_if(|again| is_answer && *again == owner).is_some();
        match (text, group.place) {
            (Text::Queued, _) if is_again => {
                group.place = Place::Queued(owner);
                self.no_answer(state, i);
            }
            (Text::Granted { others }, _) if is_again => {
                (group.place, group.contended) = (Place::Held(owner), *others);
                group.overtaken = awaits.filter(|number| *number != group.number);
                self.go_on(state, i, at);
            }
            (Text::Granted { others }, Place::Ended(_)) if group.next == Some(owner) => {
                (group.place, group.contended, group.next) = (Place::Held(owner), *others, None);
                group.overtaken = awaits.filter(|number| *number != group.number);
                self.go_on(state, i, at);
            }
            (Text::Behind(last), Place::Asked(_)) => self.behind(state, (i, at), *last),
            // A head that asks again has given the entry up: it does not hear of a grant that comes late.
            (Text::Granted { .. }, Place::Queued(_)) if group.again.is_some() => {}
            (Text::Granted { others }, Place::Asked(_) | Place::Queued(_)) => {
                (group.place, group.contended) = (Place::Held(owner), *others);
                group.overtaken = awaits.filter(|number| *number != group.number);
                self.go_on(state, i, at);
            }
            (Text::Queued, Place::Asked(_)) => {
                group.place = Place::Queued(owner);
                match state.processes[i].kept().filter(|_| !self.has(Rule::KeptForBehind)) {
                    Some(kept) => {
                        state.send(owner, Text::Release);
                        self.merge(state, i, (kept, at));
                    }
                    None => self.end_kept(state, i),
                }
            }
            (Text::Freed, _) => {
                group.follows();
                if group.members.is_empty() {
                    state.processes[i].groups.remove(at);
                }
                self.no_answer(state, i);
            }
            _ => {}
        }
    }

    /// Takes the answer that a group stands directly behind `last`.
    pub(crate) fn behind(&self, state: &mut State, (i, at): (usize, usize), last: Owner) {
        let is_there = |state: &State, to: usize| {
            let group = &state.processes[i].groups[to];
            to != at && (group.next.is_some() || matches!(group.place, Place::Queued(_) | Place::Held(_)))
        };
        if let Some((_, to)) = state.find(last).filter(|(_, to)| is_there(state, *to)) {
            return self.merge(state, i, (to, at));
        }
        let group = &mut state.processes[i].groups[at];
        if !self.has(Rule::EndedIsLeft) {
            group.place = Place::Held(last);
            return self.go_on(state, i, at);
        }
        // The next answer cannot be that it stands behind what is kept.
        group.place = Place::None;
        let number = group.number;
        self.no_answer(state, i);
        if let Some(at) = state.processes[i].groups.iter().position(|group| group.number == number) {
            state.ask(i, at, true);
        }
    }

    /// Adds the members of the group `from` to the group `to`.
    fn merge(&self, state: &mut State, i: usize, (to, from): (usize, usize)) {
        let process = &mut state.processes[i];
        let kept = process.kept() == Some(to);
        let members = process.groups.remove(from).members;
        let to = if from < to { to - 1 } else { to };
        state.stand_behind((i, to), &members);
        let process = &mut state.processes[i];
        process.groups[to].members.extend(members);
        if kept {
            self.go_on(state, i, to);
        }
        self.end_kept(state, i);
    }

    /// Returns whether a message arrives: nobody hears those to a task that is not polled, or has not taken over the
    /// entry that it was left.
    pub(crate) fn arrives(&self, state: &State, number: usize) -> bool {
        let Some(Message(owner, text)) = state.net.iter().nth(number) else { return false };
        if matches!(text, Text::Ask | Text::Release | Text::ReleaseTo(_) | Text::Freed) {
            return true;
        }
        let away = state.away(*owner).is_none_or(|(i, at)| state.processes[i].away[at].back);
        away && state.find(*owner).is_none_or(|(i, at)| !state.processes[i].groups[at].left)
    }

    pub(crate) fn deliver(&self, state: &mut State, number: usize) {
        let Some(message) = state.net.iter().nth(number).cloned() else { return };
        state.net.remove(&message);
        let Message(owner, text) = message;
        self.serve(state, owner, &text);
        self.hear(state, owner, &text);
    }

    /// Returns what is wrong once all messages have arrived, and those who are not polled have not come back.
    pub(crate) fn settles(&self, state: &State) -> Option<&'static str> {
        let mut state = state.clone();
        for _ in 0..200 {
            let all = 0..state.processes.len();
            let expires = |i: usize| {
                let known = |owner| state.knows(owner);
                state.processes[i].away.iter().position(|away| !away.back && away.owner.is_some_and(known))
            };
            let left = |i: usize| state.processes[i].groups.iter().position(|group| group.left);
            if let Some(number) = (0..state.net.len()).find(|number| self.arrives(&state, *number)) {
                self.deliver(&mut state, number);
            } else if let Some(i) = all.clone().find(|i| state.processes[*i].works.is_some()) {
                self.finish(&mut state, i);
            } else if let Some((i, at)) = all.clone().find_map(|i| left(i).map(|at| (i, at))) {
                state.processes[i].groups[at].left = false;
            } else if let Some((i, at)) =
                all.clone().find_map(|i| self.asks_next(&state.processes[i]).map(|at| (i, at)))
            {
                state.ask(i, at, false);
            } else if let Some((i, at)) = all.clone().find_map(|i| expires(i).map(|at| (i, at))) {
                state.expire(i, at);
            } else if !all.clone().any(|i| self.goes_on(&mut state, i)) {
                break;
            }
        }
        let idle = |process: &Process| process.groups.is_empty() && process.works.is_none();
        let done = state.holder.is_none() && state.queue.is_empty() && state.processes.iter().all(idle);
        state.wrong.or((!done).then_some(PROGRESS))
    }
}
