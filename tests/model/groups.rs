//! A model of the groups of a fair lock: tasks of one process that stand directly behind each other in the store's
//! queue share one place and one grant, and hand the grant on among themselves.
//!
//! It examines nothing but the order and the groups. Leases, heartbeats and late requests are those of `protocol`: a
//! request whose owner was released has no effect here, and no push is lost. A task that is not polled sends no
//! heartbeats, so its queue entry may expire.

use std::collections::BTreeSet;

use super::explorer::Model;

pub(crate) const ONE_HOLDER: &str = "at most one task has the key";
pub(crate) const ORDER: &str = "nobody overtakes a task whose process knows its place, or is being told it";
pub(crate) const EARLIER: &str = "nobody asks before those of its process who came earlier and have no place";
pub(crate) const ONCE: &str = "a task gets the key once";
pub(crate) const PROGRESS: &str = "every task gets the key, and then it is free";

/// A rule that a test can remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A claim shares the grant of its process only where that is the last of the queue, or the holder and nobody
    /// waits.
    BehindLast,
    /// While another request of the process is under way, nobody joins a group: the answers may change places.
    OneAtATime,
    /// Who comes after the request was sent is not in its group.
    ClosedBySending,
    /// Nobody joins a group whose release was sent, or which is not there any more.
    EndedIsLeft,
    /// A task that is handed the grant is out of the group.
    HandedOnce,
    /// A release names its owner.
    ReleaseNamesOwner,
    /// A grant that is kept for the answer to a request is released when there is no answer.
    KeptForAnswer,
    /// A grant that was kept goes on only to those who stand behind it.
    KeptForBehind,
    /// It is kept although others waited when it was granted, where the request was sent before that.
    KeptForEarlier,
    /// The tasks of a group whose grant is lost ask again.
    LostAsksAgain,
    /// A place is lost with a head that is not polled: nobody else keeps it alive.
    SkippedTakesPlace,
    /// The answer to a task that was skipped meanwhile concerns nobody else.
    SkippedIsAlone,
    /// Who was left the queue entry, and leaves or is skipped before it took it over, passes it on.
    EntryGoesOn,
    /// A head that gives up alone is gone from its process before its entry is released.
    LeavesFirst,
    /// Who cannot use the grant that it was given passes it on in the group.
    FailedPassesOn,
    /// A holder gives the grant back to the store, whoever waits in its group, only where it has lost it.
    LostGoesBack,
    /// The tasks of a group wait for the release of their grant as long as for an answer.
    ReleaseIsOutwaited,
    /// Nobody joins a group whose head asks for another place because its entry is gone.
    AgainIsClosed,
    /// The release of a grant that cannot be handed on, although it is not lost, names an owner for the rest of its group.
    SuccessorIsNamed,
    /// That owner comes before all who wait.
    SuccessorIsFirst,
    /// The earliest group without a place asks first, and none while an earlier one waits for the end of its grant.
    EarliestFirst,
}

/// The size of a model.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// The number of tasks of each process.
    pub(crate) tasks: &'static [u8],
    /// How many tasks may give up, requests stay unanswered, and grants be lost.
    pub(crate) leaves: u8,
    pub(crate) unanswered: u8,
    pub(crate) losses: u8,
    /// How many tasks may not be polled, cannot use their grant, and cannot hand it on.
    pub(crate) skips: u8,
    pub(crate) failures: u8,
    pub(crate) refusals: u8,
    /// How many grants may be verified by a transaction, which a process does not hand on.
    pub(crate) verified: u8,
    /// How many queue entries of heads that are polled may be lost.
    pub(crate) forgets: u8,
    /// The rules that are removed.
    pub(crate) without: &'static [Rule],
}

/// A task, by its process and number.
pub(crate) type Task = (u8, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) process: u8,
    pub(crate) number: u8,
    /// It shares its grant with nobody.
    pub(crate) strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// No request was sent.
    None,
    Asked(Owner),
    Queued(Owner),
    Held(Owner),
    /// Its grant is being released although somebody waits for it.
    Ended(Owner),
}

/// Tasks of a process that share a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    /// In the order of arrival.
    pub(crate) number: u8,
    pub(crate) members: Vec<Task>,
    pub(crate) place: Place,
    /// The entry in the queue was left to the head, which has not taken it over.
    pub(crate) left: bool,
    /// Others waited when it was granted.
    pub(crate) contended: bool,
    /// The group whose request was under way then.
    pub(crate) overtaken: Option<u8>,
    /// Its request was under way while its process released a grant, and may have arrived before that release.
    pub(crate) races: bool,
    /// The entry of the head is gone, and it asks for another one.
    pub(crate) again: Option<Owner>,
    /// The owner that the release of its grant names.
    pub(crate) next: Option<Owner>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Text {
    Ask,
    Release,
    /// A release that names who comes next.
    ReleaseTo(Owner),
    Freed,
    Granted {
        others: bool,
    },
    Queued,
    Behind(Owner),
}

/// A message in flight, from or to an owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Message(pub(crate) Owner, pub(crate) Text);

/// A task that is not polled, in no group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Away {
    pub(crate) task: Task,
    /// The owner as which it has asked.
    pub(crate) owner: Option<Owner>,
    /// It knows that it is queued.
    pub(crate) queued: bool,
    /// It is polled again, and waits for the answer to its request.
    pub(crate) back: bool,
}

/// A task that has the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Work {
    pub(crate) task: Task,
    pub(crate) owner: Owner,
    /// Its lease is being renewed, or its fencing token made.
    pub(crate) begins: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// How many tasks have not begun.
    pub(crate) left: u8,
    pub(crate) joined: u8,
    pub(crate) groups: Vec<Group>,
    pub(crate) opened: u8,
    pub(crate) works: Option<Work>,
    pub(crate) away: Vec<Away>,
    pub(crate) minted: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) holder: Option<Owner>,
    pub(crate) queue: Vec<Owner>,
    /// The owners whose requests have no effect any more.
    pub(crate) released: BTreeSet<Owner>,
    pub(crate) processes: Vec<Process>,
    pub(crate) net: BTreeSet<Message>,
    pub(crate) leaves: u8,
    pub(crate) unanswered: u8,
    pub(crate) losses: u8,
    pub(crate) skips: u8,
    pub(crate) failures: u8,
    pub(crate) refusals: u8,
    pub(crate) verified: u8,
    pub(crate) forgets: u8,
    /// The owners whose process does not hear the answer to a release: the future is not polled.
    pub(crate) unheard: BTreeSet<Owner>,
    /// Nothing goes wrong in this model, so that those who are being told their place keep it.
    pub(crate) calm: bool,
    /// For the properties: the tasks that the store has given a place, in order, and those that had the key.
    pub(crate) places: Vec<Task>,
    pub(crate) served: BTreeSet<Task>,
    pub(crate) wrong: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Join(usize),
    Ask(usize),
    /// The message with this number arrives.
    Deliver(usize),
    Finish(usize),
    /// The task that has the key goes on to its work, or cannot.
    Begin(usize),
    Fail(usize),
    /// The task that has the key releases it to the store, whoever waits in its group.
    Refuse(usize),
    /// The same, and the future that releases is not polled any more.
    Stuck(usize),
    /// The task that has the key has verified its grant, and releases it.
    Verify(usize),
    /// A group waits no longer for the release of its grant.
    Outwait(usize, usize),
    /// The queue entry of a head is lost; the head learns of it.
    Forget(usize, usize),
    Again(usize, usize),
    /// The head of a group is not polled.
    Skip(usize, usize),
    /// A task that was not polled is.
    Back(usize, usize),
    /// Its queue entry, or its grant, expires.
    Expire(usize, usize),
    /// The head of a group takes over the queue entry that it was left.
    Adopt(usize, usize),
    /// A member of a group gives up.
    Leave(usize, usize, usize),
    Unanswered(usize, usize),
    Lose(usize),
}

pub(crate) struct Groups(pub(crate) Size);

impl Process {
    pub(crate) fn asks(&self) -> bool {
        let asks = |group: &Group| match group.place {
            Place::Asked(_) => true,
            Place::None => group.again.is_some(),
            Place::Queued(_) | Place::Held(_) | Place::Ended(_) => false,
        };
        self.groups.iter().any(asks)
    }

    /// Returns the number of the group that asks.
    pub(crate) fn awaits(&self) -> Option<u8> {
        self.groups.iter().find(|group| matches!(group.place, Place::Asked(_))).map(|group| group.number)
    }

    /// Returns which group has a grant that nobody uses.
    pub(crate) fn kept(&self) -> Option<usize> {
        let is_kept = |group: &Group| match group.place {
            Place::Held(owner) => {
                group.members.is_empty() && self.works.is_none_or(|works| works.owner != owner)
            }
            _ => false,
        };
        self.groups.iter().position(is_kept)
    }

    /// Returns the group of a task.
    fn group_of(&self, task: Task) -> Option<&Group> {
        self.groups.iter().find(|group| group.members.contains(&task))
    }

    /// Opens a group for a task, at the end.
    pub(crate) fn open(&mut self, members: Vec<Task>, place: Place) -> usize {
        let (number, overtaken, again, next) = (self.opened, None, None, None);
        let (left, contended, races) = (false, false, false);
        self.groups.push(Group { number, members, place, left, contended, overtaken, races, again, next });
        self.opened += 1;
        self.groups.len() - 1
    }
}

fn is_behind(text: &Text) -> bool {
    matches!(text, Text::Behind(_))
}

impl State {
    pub(crate) fn mint(&mut self, i: usize, strict: bool) -> Owner {
        let process = &mut self.processes[i];
        process.minted += 1;
        Owner { process: u8::try_from(i).expect("BUG: few"), number: process.minted, strict }
    }

    pub(crate) fn send(&mut self, owner: Owner, text: Text) {
        self.net.insert(Message(owner, text));
    }

    /// Sends the request of a group.
    pub(crate) fn ask(&mut self, i: usize, at: usize, strict: bool) {
        let groups = &self.processes[i].groups;
        let waits = |group: &Group| matches!(group.place, Place::None | Place::Ended(_));
        let is_first = !strict;
        if is_first && groups.iter().any(|group| group.number < groups[at].number && waits(group)) {
            self.wrong.get_or_insert(EARLIER);
        }
        let owner = self.mint(i, strict);
        let releases = |text: &Text| matches!(text, Text::Release | Text::ReleaseTo(_));
        let is_own = |Message(of, text): &Message| releases(text) && usize::from(of.process) == i;
        self.processes[i].groups[at].races = self.net.iter().any(is_own);
        self.processes[i].groups[at].place = Place::Asked(owner);
        self.send(owner, Text::Ask);
    }

    pub(crate) fn find(&self, owner: Owner) -> Option<(usize, usize)> {
        let i = usize::from(owner.process);
        let is = |group: &Group| match group.place {
            _ if group.again == Some(owner) || group.next == Some(owner) => true,
            Place::None => false,
            Place::Asked(of) | Place::Queued(of) | Place::Held(of) | Place::Ended(of) => of == owner,
        };
        self.processes[i].groups.iter().position(is).map(|at| (i, at))
    }

    /// Returns whether its process knows that a task has a place, or is being told it.
    fn knows_place_of(&self, task: Task) -> bool {
        let told = |of| self.calm && self.net.iter().any(|Message(to, text)| *to == of && is_behind(text));
        self.processes[usize::from(task.0)].group_of(task).is_some_and(|group| match group.place {
            Place::Queued(_) | Place::Held(_) | Place::Ended(_) => true,
            Place::Asked(of) => !group.races && told(of),
            Place::None => false,
        })
    }

    /// Returns which task that is not polled has asked as this owner.
    pub(crate) fn away(&self, owner: Owner) -> Option<(usize, usize)> {
        let i = usize::from(owner.process);
        self.processes[i].away.iter().position(|away| away.owner == Some(owner)).map(|at| (i, at))
    }

    /// The tasks for whom this owner asks have a place, at the end.
    pub(crate) fn placed(&mut self, owner: Owner) {
        let members = match (self.find(owner), self.away(owner)) {
            (Some((i, at)), _) => self.processes[i].groups[at].members.clone(),
            (None, Some((i, at))) => vec![self.processes[i].away[at].task],
            (None, None) => return,
        };
        self.unplaced(&members);
        self.places.extend(members);
    }

    pub(crate) fn unplaced(&mut self, members: &[Task]) {
        self.places.retain(|task| !members.contains(task));
    }

    pub(crate) fn grant(&mut self, owner: Owner) {
        self.holder = Some(owner);
        self.queue.retain(|other| *other != owner);
        let others = !self.queue.is_empty();
        self.send(owner, Text::Granted { others });
    }

    pub(crate) fn serve_queue(&mut self) {
        if self.holder.is_none() && !self.queue.is_empty() {
            self.grant(self.queue[0]);
        }
    }

    /// Lets a task have the key.
    pub(crate) fn start(&mut self, task: Task, owner: Owner) {
        let working = self.processes.iter().any(|process| process.works.is_some());
        if working || self.holder != Some(owner) {
            self.wrong.get_or_insert(ONE_HOLDER);
        }
        if !self.served.insert(task) {
            self.wrong.get_or_insert(ONCE);
        }
        let mut before = self.places.iter().take_while(|other| **other != task);
        if before.any(|other| self.knows_place_of(*other)) {
            self.wrong.get_or_insert(ORDER);
        }
        self.unplaced(&[task]);
        let begins = self.failures > 0;
        self.processes[usize::from(owner.process)].works = Some(Work { task, owner, begins });
    }
}

impl Model for Groups {
    type State = State;
    type Step = Step;

    fn initial(&self) -> State {
        let process = |&left: &u8| Process {
            left,
            joined: 0,
            groups: Vec::new(),
            opened: 0,
            works: None,
            away: Vec::new(),
            minted: 0,
        };
        State {
            holder: None,
            queue: Vec::new(),
            released: BTreeSet::new(),
            processes: self.0.tasks.iter().map(process).collect(),
            net: BTreeSet::new(),
            leaves: self.0.leaves,
            unanswered: self.0.unanswered,
            losses: self.0.losses,
            skips: self.0.skips,
            failures: self.0.failures,
            refusals: self.0.refusals,
            verified: self.0.verified,
            forgets: self.0.forgets,
            unheard: BTreeSet::new(),
            calm: self.is_calm(),
            places: Vec::new(),
            served: BTreeSet::new(),
            wrong: None,
        }
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let arrives = |number: &usize| self.arrives(state, *number);
        steps.extend((0..state.net.len()).filter(arrives).map(Step::Deliver));
        for (i, process) in state.processes.iter().enumerate() {
            if process.left > 0 {
                steps.push(Step::Join(i));
            }
            match process.works {
                Some(Work { begins: true, .. }) => steps.extend([Step::Begin(i), Step::Fail(i)]),
                Some(_) => steps.push(Step::Finish(i)),
                None => {}
            }
            if state.refusals > 0 && process.works.is_some_and(|works| !works.begins) {
                steps.extend([Step::Refuse(i), Step::Stuck(i)]);
            }
            if state.verified > 0 && process.works.is_some_and(|works| !works.begins) {
                steps.push(Step::Verify(i));
            }
            if self.asks_next(process).is_some() {
                steps.push(Step::Ask(i));
            }
            if state.losses > 0 && state.holder.is_some_and(|owner| usize::from(owner.process) == i) {
                steps.push(Step::Lose(i));
            }
            for (at, away) in process.away.iter().enumerate().filter(|(_, away)| !away.back) {
                steps.push(Step::Back(i, at));
                if away.owner.is_some_and(|owner| state.knows(owner)) {
                    steps.push(Step::Expire(i, at));
                }
            }
            for (at, group) in process.groups.iter().enumerate() {
                if state.leaves > 0 {
                    steps.extend((0..group.members.len()).map(|member| Step::Leave(i, at, member)));
                }
                if state.skips > 0 && !group.members.is_empty() {
                    steps.push(Step::Skip(i, at));
                }
                if group.left {
                    steps.push(Step::Adopt(i, at));
                }
                let is_asked = matches!(group.place, Place::Asked(_)) || group.again.is_some();
                if state.unanswered > 0 && is_asked {
                    steps.push(Step::Unanswered(i, at));
                }
                self.steps_of_lost(state, (i, at), steps);
            }
        }
    }

    fn after(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Join(i) => self.join(&mut next, i),
            Step::Ask(i) => {
                if let Some(at) = self.asks_next(&state.processes[i]) {
                    next.ask(i, at, false);
                }
            }
            Step::Deliver(number) => self.deliver(&mut next, number),
            Step::Finish(i) => self.finish(&mut next, i),
            Step::Begin(i) => next.begin(i),
            Step::Fail(i) => self.fail(&mut next, i),
            Step::Refuse(i) => self.refuse(&mut next, i, true),
            Step::Stuck(i) => self.refuse(&mut next, i, false),
            Step::Verify(i) => self.verify(&mut next, i),
            Step::Outwait(i, at) => next.outwait(i, at),
            Step::Forget(i, at) => next.forget(i, at),
            Step::Again(i, at) => next.again(i, at),
            Step::Skip(i, at) => self.skip(&mut next, i, at),
            Step::Back(i, at) => self.back(&mut next, i, at),
            Step::Expire(i, at) => next.expire(i, at),
            Step::Adopt(i, at) => next.processes[i].groups[at].left = false,
            Step::Leave(i, at, member) => self.leave(&mut next, (i, at, member)),
            Step::Unanswered(i, at) => self.unanswered(&mut next, i, at),
            Step::Lose(i) => self.lose(&mut next, i),
        }
        next
    }

    fn broken(&mut self, state: &State) -> Option<&'static str> {
        state.wrong.or_else(|| self.settles(state))
    }
}
