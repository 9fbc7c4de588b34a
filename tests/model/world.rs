//! A state that changes to the next one: steps, time, and the removal of data without effect.

use super::explorer::{Fingerprints, Model, fingerprint};
use super::protocol::{Fault, Head, Hold, LATE, LONG, Linger, Message, NOW, Owner, Rule, Size, State, Tick};

/// A state that is being changed.
pub(crate) struct World<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) size: &'a Size,
    /// Whether the number of owners is unlimited.
    pub(crate) unlimited: bool,
}

/// A step that may happen next. The number is the number of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A third of a lease passes.
    Tick,
    Deliver(Message),
    /// A task begins with a plain SET.
    Grab(usize),
    /// A task joins the local queue.
    Join(usize),
    /// The plain SET was not answered in time.
    GrabUnanswered(usize),
    /// The request for a queue entry was not answered in time.
    AskUnanswered(usize),
    Heartbeat(usize),
    Renew(usize),
    /// The holder hands its grant to the next waiter of its process.
    Turn(usize),
    /// The holder releases to the store.
    Release(usize),
    /// The holder releases, so that its grant lingers.
    Linger(usize),
    /// The process ends regularly.
    Close(usize),
    /// The head of the local queue gives up.
    Leave(usize),
    Crash(usize),
    Lose(Fault),
}

impl World<'_> {
    pub(crate) fn has(&self, rule: Rule) -> bool {
        !self.size.without.contains(&rule)
    }

    pub(crate) fn deliver(&mut self, message: Message) {
        self.state.take(message);
        self.serve(message);
        self.receive(message);
    }

    pub(crate) fn tick(&mut self) {
        let older = |moment: &mut Tick| *moment = (*moment - 1).max(-LONG);
        let state = &mut *self.state;
        if let Some((_, ends)) = &mut state.holder {
            older(ends);
        }
        if state.holder.is_some_and(|(_, ends)| ends <= NOW) {
            state.hold_by(None);
        }
        state.waiting.iter_mut().for_each(|entry| entry.until = (entry.until - 1).max(NOW));
        for message in &mut state.net {
            match message {
                Message::Set { sent: moment, .. }
                | Message::Enqueue { sent: moment, .. }
                | Message::Heartbeat { sent: moment, .. }
                | Message::Renew { sent: moment, .. }
                | Message::Cancel { until: moment, .. }
                | Message::Granted { until: moment, .. }
                | Message::Waiting { sent: moment, .. }
                | Message::Own { free: moment, .. }
                | Message::Renewed { until: moment, .. } => older(moment),
                Message::Taken { .. }
                | Message::Gone { .. }
                | Message::NotOwned { .. }
                | Message::Push { .. }
                | Message::Contended { .. }
                | Message::Freed { .. } => {}
            }
            if let Message::Cancel { until, .. } = message {
                *until = (*until).max(NOW - 1);
            }
        }
        state.net.sort_unstable();
        state.net.dedup();
        for process in &mut state.processes {
            match &mut process.head {
                Head::Placed { kept: moment, .. } | Head::Sleeps { free: moment, .. } => older(moment),
                Head::Rests | Head::Asks { .. } => {}
            }
            if let Some(hold) = &mut process.hold {
                older(&mut hold.until);
            }
            if let Some(linger) = &mut process.linger {
                older(&mut linger.until);
                older(&mut linger.end);
            }
        }
        for i in 0..self.state.processes.len() {
            let process = &self.state.processes[i];
            if process.hold.is_some_and(|hold| hold.until <= NOW) {
                self.lose(i);
            } else if matches!(process.head, Head::Sleeps { free, .. } if free <= NOW) {
                self.freed(i);
            }
            let is_over = |linger: &Linger| linger.end <= NOW || linger.until <= NOW;
            if self.state.processes[i].linger.as_ref().is_some_and(is_over) && self.has(Rule::LingerEnds) {
                self.end_linger(i);
            }
        }
    }

    /// Removes everything that can have no effect any more.
    pub(crate) fn tidy(&mut self) {
        let net = std::mem::take(&mut self.state.net);
        self.state.net.clone_from(&net);
        let useful = |message: &Message| self.is_useful(*message);
        let left: Vec<Message> = net.iter().copied().filter(useful).collect();
        self.state.net = left;
    }

    fn is_useful(&self, message: Message) -> bool {
        let state = &*self.state;
        let head = |owner: Owner| {
            let process = state.process(owner);
            (process.alive && process.waits_as() == Some(owner)).then_some(process.head)
        };
        let hold = |owner: Owner| state.process(owner).hold.filter(|hold| hold.owner == owner);
        let grabs = |owner: Owner| state.process(owner).grab.is_some_and(|(grab, _)| grab == owner);
        match message {
            Message::Set { sent, .. } | Message::Enqueue { sent, .. } => sent >= NOW - LATE,
            Message::Heartbeat { owner, .. } | Message::Renew { owner, .. } => {
                state.is_known(owner) || head(owner).is_some() || hold(owner).is_some()
            }
            Message::Cancel { owner, told, .. } => {
                state.is_known(owner) || !told && state.process(owner).can_be_told()
            }
            Message::Taken { owner } => grabs(owner),
            Message::Granted { owner, .. } => {
                grabs(owner) || matches!(head(owner), Some(Head::Asks { .. } | Head::Placed { .. }))
            }
            Message::Waiting { owner, sent, .. } => match head(owner) {
                Some(Head::Asks { .. }) => true,
                Some(Head::Placed { kept, .. }) => kept < sent,
                _ => false,
            },
            Message::Own { owner, .. } => matches!(head(owner), Some(Head::Asks { .. })),
            Message::Gone { owner } => matches!(head(owner), Some(Head::Placed { .. })),
            Message::Renewed { owner, until, others } => {
                hold(owner).is_some_and(|Hold { until: known, .. }| known < until || others)
            }
            Message::NotOwned { owner } => hold(owner).is_some(),
            Message::Push { owner, .. } => {
                matches!(head(owner), Some(Head::Asks { .. } | Head::Placed { .. }))
                    || !self.has(Rule::PushIgnored) && state.process(owner).alive && state.is_known(owner)
            }
            Message::Contended { process } => {
                let process = &state.processes[usize::from(process)];
                process.is_concerned() && !(process.contended && process.linger.is_none())
            }
            Message::Freed { process } => state.processes[usize::from(process)].can_be_told(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Tick => self.tick(),
            Step::Deliver(message) => self.deliver(message),
            Step::Grab(i) => self.grab(i),
            Step::Join(i) => self.join_line(i),
            Step::GrabUnanswered(i) => {
                self.state.processes[i].unanswered -= 1;
                self.grab_unanswered(i);
            }
            Step::AskUnanswered(i) => {
                self.state.processes[i].unanswered -= 1;
                self.ask_unanswered(i);
            }
            Step::Heartbeat(i) => {
                self.state.processes[i].beats -= 1;
                self.sign(i);
            }
            Step::Renew(i) => {
                self.state.processes[i].renewals -= 1;
                self.renewal(i);
            }
            Step::Turn(i) => self.turn(i),
            Step::Release(i) => self.finish(i),
            Step::Linger(i) => self.linger(i),
            Step::Close(i) => self.close(i),
            Step::Leave(i) => self.leave_line(i),
            Step::Crash(i) => self.crash(i),
            Step::Lose(fault) => self.lose_data(fault),
        }
    }

    fn crash(&mut self, i: usize) {
        self.state.fault = false;
        let process = &mut self.state.processes[i];
        process.alive = false;
        (process.grab, process.hold, process.head) = (None, None, Head::Rests);
        (process.linger, process.contended) = (None, false);
        process.line.clear();
        process.tasks.clear();
        (process.minted, process.beats, process.renewals, process.unanswered) = (0, 0, 0, 0);
        // The cancels that the process still had to send are lost.
        let its = |message: &Message| matches!(message, Message::Cancel { owner, .. } if usize::from(owner.process) == i);
        self.state.net.retain(|message| !its(message));
    }

    fn lose_data(&mut self, fault: Fault) {
        self.state.fault = false;
        match fault {
            Fault::Crash => {}
            Fault::SetBack => self.state.set_back = true,
            Fault::LoseMark => {
                let holder = self.state.holder;
                self.state.hold_by(holder);
            }
            Fault::LoseData => {
                self.state.hold_by(None);
                self.state.queue.clear();
                self.state.arrived.clear();
                self.state.waiting.clear();
            }
            Fault::LoseQueue => {
                self.state.queue.clear();
                self.state.arrived.clear();
            }
        }
    }

    /// Stops all faults, and drops every message in flight and every push. Returns whether heartbeats alone serve all
    /// waiters.
    pub(crate) fn settles(&mut self) -> bool {
        self.unlimited = true;
        for _ in 0..16 {
            self.tick();
            for i in 0..self.state.processes.len() {
                if self.state.processes[i].alive {
                    self.insist(i);
                }
            }
            let busy = |state: &State| {
                state.processes.iter().any(|process| !process.line.is_empty() || process.hold.is_some())
            };
            if !busy(self.state) {
                return true;
            }
        }
        false
    }

    /// Makes a process repeat its requests until each is answered. Then its holder releases.
    fn insist(&mut self, i: usize) {
        self.grab_unanswered(i);
        if !self.state.processes[i].line.is_empty() {
            self.ask_unanswered(i);
            self.sign(i);
        }
        self.answer_all();
        self.finish(i);
        self.answer_all();
    }

    fn answer_all(&mut self) {
        loop {
            let waits = |process: u8| self.state.processes[usize::from(process)].waits_to_be_told();
            let now = |message: &&Message| !matches!(message, Message::Freed { process } if !waits(*process));
            let Some(message) = self.state.net.iter().find(now).copied() else { break };
            match message {
                Message::Push { .. } => self.state.take(message),
                Message::Cancel { owner, told, .. } => {
                    self.state.take(message);
                    self.serve(Message::Cancel { owner, until: NOW - 1, told });
                }
                _ => self.deliver(message),
            }
        }
        self.state.net.clear();
    }
}

/// The protocol, and the states that are known to settle.
pub(crate) struct Protocol {
    pub(crate) size: Size,
    /// The states that are known to settle.
    pub(crate) settled: Fingerprints,
}

impl Protocol {
    pub(crate) fn new(size: Size) -> Self {
        Self { size, settled: Fingerprints::default() }
    }

    /// Returns whether heartbeats alone serve all waiters from this state.
    pub(crate) fn settles(&mut self, state: &State) -> bool {
        let mut rest = state.clone();
        // All other messages in flight are lost. These are repeated until they are answered.
        rest.net.retain(|message| matches!(message, Message::Cancel { .. } | Message::Freed { .. }));
        rest.arrived.clear();
        rest.queued = 0;
        rest.waiting.iter_mut().for_each(|entry| entry.unnoticed = false);
        for process in &mut rest.processes {
            process.tasks.clear();
            (process.grab, process.beats, process.renewals, process.unanswered) = (None, 0, 0, 0);
        }
        if !self.settled.add(fingerprint(&rest)) {
            return true;
        }
        World { state: &mut rest, size: &self.size, unlimited: true }.settles()
    }
}

impl Model for Protocol {
    type State = State;
    type Step = Step;

    fn initial(&self) -> State {
        let mut state = State::new(&self.size);
        if self.size.queued {
            let mut world = World { state: &mut state, size: &self.size, unlimited: false };
            for i in 0..2 {
                world.join_line(i);
                while let Some(message) = world.state.net.first().copied() {
                    world.deliver(message);
                }
            }
        }
        state
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        steps.extend(state.net.iter().map(|message| Step::Deliver(*message)));
        for (i, process) in state.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            let may = process.minted < self.size.owners;
            let foreign = self.size.foreign.is_some_and(|foreign| usize::from(foreign) == i);
            let sets = (self.size.grabs || foreign)
                && process.grab.is_none()
                && process.hold.is_none()
                && process.linger.is_none();
            if may && sets && !process.tasks.is_empty() {
                steps.push(Step::Grab(i));
            }
            let finds = !process.line.is_empty() || process.linger.is_some();
            if !foreign && !process.tasks.is_empty() && (may || finds) {
                steps.push(Step::Join(i));
            }
            let unanswered = may && process.unanswered > 0;
            if unanswered && process.grab.is_some() {
                steps.push(Step::GrabUnanswered(i));
            }
            if !process.line.is_empty() {
                match process.head {
                    Head::Asks { .. } if unanswered => steps.push(Step::AskUnanswered(i)),
                    Head::Placed { .. } if process.beats > 0 => steps.push(Step::Heartbeat(i)),
                    _ => {}
                }
                if self.size.leaves {
                    steps.push(Step::Leave(i));
                }
            }
            if process.hold.is_some() {
                if process.renewals > 0 && !foreign {
                    steps.push(Step::Renew(i));
                }
                if self.size.turns && !process.line.is_empty() {
                    steps.push(Step::Turn(i));
                }
                steps.push(Step::Release(i));
                if process.may_linger(&self.size) {
                    steps.push(Step::Linger(i));
                }
            }
            if self.size.closes && i == 0 && !process.closed {
                steps.push(Step::Close(i));
            }
        }
        if state.fault {
            self.faults(state, steps);
        }
    }

    fn after(&self, state: &State, step: Step) -> State {
        let mut after = state.clone();
        let mut world = World { state: &mut after, size: &self.size, unlimited: false };
        world.step(step);
        world.tidy();
        after
    }

    fn broken(&mut self, state: &State) -> Option<&'static str> {
        self.property(state)
    }
}

impl Protocol {
    fn faults(&self, state: &State, steps: &mut Vec<Step>) {
        for &fault in self.size.faults {
            match fault {
                Fault::Crash => {
                    let alive = state.processes.iter().enumerate().filter(|(_, process)| process.alive);
                    steps.extend(alive.map(|(i, _)| Step::Crash(i)));
                }
                Fault::LoseQueue if state.queue.is_empty() => {}
                Fault::LoseMark if !state.marked => {}
                Fault::LoseData | Fault::LoseQueue | Fault::LoseMark | Fault::SetBack => {
                    steps.push(Step::Lose(fault))
                }
            }
        }
    }
}
