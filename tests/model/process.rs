//! The behavior of a process: its local queue, its entry in the store's queue, and its grant.

use super::protocol::{Head, Hold, LATE, LINGER, Linger, Message, NOW, Owner, Rule, Tick, waiter_lease};
use super::world::World;

/// The `until` of a release if no later request of its owner can arrive.
const CERTAIN: Tick = NOW - 1;

impl World<'_> {
    fn mint(&mut self, i: usize) -> Option<Owner> {
        let (most, all) = (self.size.owners, self.unlimited);
        let process = &mut self.state.processes[i];
        if process.minted >= most && !all {
            return None;
        }
        let number = process.minted;
        process.minted = number.checked_add(1).expect("BUG: the run is short");
        Some(Owner { process: u8::try_from(i).expect("BUG: few processes"), number })
    }

    /// Releases everything that an unanswered request may have acquired.
    fn give_up(&mut self, owner: Owner) {
        self.state.send(Message::Cancel { owner, until: NOW + LATE, told: false });
    }

    /// Releases what the store has certainly granted or queued.
    fn give_back(&mut self, owner: Owner) {
        self.state.send(Message::Cancel { owner, until: CERTAIN, told: false });
    }

    /// Makes a task begin with a plain SET.
    pub(crate) fn grab(&mut self, i: usize) {
        let ttl = self.state.processes[i].tasks.remove(0);
        if let Some(owner) = self.mint(i) {
            self.state.processes[i].grab = Some((owner, ttl));
            self.state.send(Message::Set { owner, sent: NOW, ttl });
        }
    }

    /// Puts a task into the local queue. If it is the head and the process has no grant, it sends a request. A task
    /// that finds a lingering grant gets the key at once.
    pub(crate) fn join_line(&mut self, i: usize) {
        let ttl = self.state.processes[i].tasks.remove(0);
        if self.takes_linger(i, ttl) {
            return;
        }
        let process = &mut self.state.processes[i];
        process.line.push(ttl);
        if process.line.len() == 1 {
            process.head = Head::Rests;
            if process.hold.is_none() {
                self.ask(i, None);
            }
        }
    }

    /// Gives the lingering grant to a task. Returns whether there is one.
    fn takes_linger(&mut self, i: usize, ttl: Tick) -> bool {
        let takes = self.has(Rule::JoinTakesLinger);
        let Some(linger) = self.state.processes[i].linger.take_if(|_| takes) else { return false };
        let until = if self.has(Rule::LingerKeepsLease) { linger.until } else { NOW + ttl };
        self.hold(linger.owner, until, ttl);
        true
    }

    /// Makes the head request a queue entry. It uses `owner` if that owner has not sent a request yet.
    pub(crate) fn ask(&mut self, i: usize, owner: Option<Owner>) {
        let Some(owner) = owner.or_else(|| self.mint(i)) else {
            self.state.processes[i].line.clear();
            self.state.processes[i].head = Head::Rests;
            return;
        };
        let process = &mut self.state.processes[i];
        process.head = Head::Asks { owner };
        let ttl = process.line[0];
        self.state.send(Message::Enqueue { owner, sent: NOW, ttl });
    }

    /// Gives up a plain SET without an answer. The task begins again as another owner.
    pub(crate) fn grab_unanswered(&mut self, i: usize) {
        if let Some((owner, ttl)) = self.state.processes[i].grab.take() {
            self.give_up(owner);
            self.state.processes[i].tasks.insert(0, ttl);
        }
    }

    /// Gives up a request for a queue entry without an answer.
    pub(crate) fn ask_unanswered(&mut self, i: usize) {
        let Head::Asks { owner } = self.state.processes[i].head else { return };
        if self.has(Rule::OneRequest) {
            self.give_up(owner);
            self.ask(i, None);
        } else {
            self.ask(i, Some(owner));
        }
    }

    pub(crate) fn sign(&mut self, i: usize) {
        let process = &self.state.processes[i];
        if let Head::Placed { owner, .. } = process.head {
            let ttl = process.line[0];
            self.state.send(Message::Heartbeat { owner, sent: NOW, ttl });
        }
    }

    pub(crate) fn renewal(&mut self, i: usize) {
        if let Some(Hold { owner, ttl, .. }) = self.state.processes[i].hold {
            self.state.send(Message::Renew { owner, sent: NOW, ttl });
        }
    }

    /// Makes the head give up. Its queue entry stays with the local queue.
    pub(crate) fn leave_line(&mut self, i: usize) {
        let process = &mut self.state.processes[i];
        process.line.remove(0);
        let (head, next) = (process.head, process.line.first().copied());
        process.head = Head::Rests;
        match (head, next) {
            (Head::Placed { owner, kept, lease }, Some(ttl)) => {
                let kept = if self.has(Rule::PlaceKeepsTime) { kept } else { NOW };
                let lease =
                    if self.has(Rule::PlaceKeepsLease) { lease.min(waiter_lease(ttl)) } else { lease };
                self.state.processes[i].head = Head::Placed { owner, kept, lease };
                return;
            }
            (Head::Placed { owner, .. }, None) if self.has(Rule::CancelPlaces) => self.give_back(owner),
            (Head::Asks { owner }, _) => self.give_up(owner),
            _ => {}
        }
        if next.is_some() && self.state.processes[i].hold.is_none() {
            self.ask(i, None);
        }
    }

    /// Makes the holder hand its grant to the head of the local queue.
    pub(crate) fn turn(&mut self, i: usize) {
        let process = &mut self.state.processes[i];
        let (Some(hold), head) = (&mut process.hold, process.head) else { return };
        hold.ttl = process.line.remove(0);
        process.head = Head::Rests;
        match head {
            Head::Placed { owner, .. } => self.give_back(owner),
            Head::Asks { owner } => self.give_up(owner),
            Head::Rests | Head::Sleeps { .. } => {}
        }
    }

    /// Makes the holder release to the store, or lose its grant.
    pub(crate) fn finish(&mut self, i: usize) {
        if let Some(hold) = self.state.processes[i].hold.take() {
            self.state.processes[i].contended = false;
            self.give_back(hold.owner);
        }
    }

    /// Makes the holder release, so that its grant lingers.
    pub(crate) fn linger(&mut self, i: usize) {
        let process = &mut self.state.processes[i];
        if let Some(Hold { owner, until, .. }) = process.hold.take() {
            process.linger = Some(Linger { owner, until, end: NOW + LINGER });
        }
    }

    /// Releases a lingering grant to the store.
    pub(crate) fn end_linger(&mut self, i: usize) {
        let process = &mut self.state.processes[i];
        let Some(linger) = process.linger else { return };
        (process.linger, process.contended) = (None, false);
        self.give_back(linger.owner);
    }

    /// Ends a process regularly. Its waiters give up, and a lingering grant is released. Holders release on their own.
    pub(crate) fn close(&mut self, i: usize) {
        self.grab_unanswered(i);
        while !self.state.processes[i].line.is_empty() {
            self.leave_line(i);
        }
        let process = &mut self.state.processes[i];
        process.tasks.clear();
        process.closed = true;
        (process.minted, process.beats, process.unanswered) = (u8::MAX, 0, 0);
        if self.has(Rule::CloseEndsLinger) {
            self.end_linger(i);
        }
    }

    /// Receives the notification that another process waits.
    fn contended(&mut self, i: usize) {
        if !self.state.processes[i].is_concerned() {
            return;
        }
        self.state.processes[i].contended = true;
        let linger = self.state.processes[i].linger;
        if self.has(Rule::ContendedEndsLinger) {
            self.end_linger(i);
        }
        if !self.has(Rule::GivenBackIsGone) {
            self.state.processes[i].linger = linger;
        }
    }

    /// Ends the time for which the holder certainly has the key.
    pub(crate) fn lose(&mut self, i: usize) {
        self.finish(i);
        self.freed(i);
    }

    /// Makes the head send a request, because the grant of another holder of this process may be free.
    pub(crate) fn freed(&mut self, i: usize) {
        let process = &self.state.processes[i];
        if process.waits_to_be_told() {
            let unused = if let Head::Sleeps { owner, .. } = process.head { Some(owner) } else { None };
            self.ask(i, unused);
        }
    }

    fn hold(&mut self, owner: Owner, until: Tick, ttl: Tick) {
        let early = self.has(Rule::ContendedCountsEarly);
        let process = &mut self.state.processes[usize::from(owner.process)];
        process.contended &= early;
        if process.hold.is_some() {
            self.state.wrong.get_or_insert("at most one holds for certain");
        }
        process.hold = Some(Hold { owner, until, ttl });
    }

    /// Receives a message to a process.
    pub(crate) fn receive(&mut self, message: Message) {
        match message {
            Message::Taken { owner } => self.taken(owner),
            Message::Granted { owner, until, others } => {
                self.granted(owner, until);
                self.told_of_others(owner, others);
            }
            Message::Waiting { owner, sent, ttl } => self.waiting(owner, sent, ttl),
            Message::Own { owner, free } => {
                let process = &mut self.state.processes[usize::from(owner.process)];
                if process.alive && process.head == (Head::Asks { owner }) {
                    process.head = Head::Sleeps { owner, free };
                    if free <= NOW {
                        self.freed(usize::from(owner.process));
                    }
                }
            }
            Message::Gone { owner } => self.gone(owner),
            Message::Renewed { owner, until, others } => {
                let hold = self.state.processes[usize::from(owner.process)].hold.as_mut();
                if let Some(hold) = hold.filter(|hold| hold.owner == owner) {
                    hold.until = hold.until.max(until);
                    self.told_of_others(owner, others);
                }
            }
            Message::NotOwned { owner } => {
                if self.state.process(owner).hold.is_some_and(|hold| hold.owner == owner) {
                    self.lose(usize::from(owner.process));
                }
            }
            Message::Push { owner, others } => {
                self.pushed(owner);
                self.told_of_others(owner, others);
            }
            Message::Contended { process } => self.contended(usize::from(process)),
            Message::Freed { process } => {
                if self.state.processes[usize::from(process)].waits_to_be_told() {
                    self.freed(usize::from(process));
                } else {
                    // The notification is kept until the answer to the request that was sent meanwhile.
                    self.state.send(message);
                }
            }
            Message::Set { .. }
            | Message::Enqueue { .. }
            | Message::Heartbeat { .. }
            | Message::Renew { .. }
            | Message::Cancel { .. } => {}
        }
    }

    /// Records that other processes wait, as the answer with the grant reports.
    fn told_of_others(&mut self, owner: Owner, others: bool) {
        let process = &mut self.state.processes[usize::from(owner.process)];
        process.contended |= others && process.hold.is_some_and(|hold| hold.owner == owner);
    }

    /// Handles the answer that the key is held. The task joins the local queue and requests a place as the same owner,
    /// which has no queue entry yet.
    fn taken(&mut self, owner: Owner) {
        let i = usize::from(owner.process);
        let process = &mut self.state.processes[i];
        let Some((_, ttl)) = process.grab.take_if(|(grab, _)| *grab == owner) else { return };
        if self.size.foreign == Some(owner.process) {
            process.tasks.insert(0, ttl);
            return;
        }
        if self.takes_linger(i, ttl) {
            return;
        }
        let process = &mut self.state.processes[i];
        if process.line.is_empty() {
            process.line.push(ttl);
            self.ask(i, Some(owner));
        }
    }

    fn granted(&mut self, owner: Owner, until: Tick) {
        let i = usize::from(owner.process);
        let process = &mut self.state.processes[i];
        if let Some((_, ttl)) = process.grab.take_if(|(grab, _)| *grab == owner) {
            if until > NOW {
                self.hold(owner, until, ttl);
            } else {
                self.give_up(owner);
                self.state.processes[i].tasks.insert(0, ttl);
            }
            return;
        }
        match process.head {
            Head::Asks { owner: waits } | Head::Placed { owner: waits, .. }
                if process.waits_as() == Some(owner) && waits == owner => {}
            _ => return,
        }
        if until <= NOW {
            match process.head {
                Head::Placed { .. } => self.give_back(owner),
                _ => self.give_up(owner),
            }
            self.ask(i, None);
            return;
        }
        self.serve_head(i, owner, until);
    }

    /// Makes the head the holder. The next waiter is notified when this hold ends.
    fn serve_head(&mut self, i: usize, owner: Owner, until: Tick) {
        let process = &mut self.state.processes[i];
        let ttl = process.line.remove(0);
        process.head = Head::Rests;
        self.hold(owner, until, ttl);
    }

    fn waiting(&mut self, owner: Owner, sent: Tick, ttl: Tick) {
        let narrow = self.has(Rule::PlaceKeepsLease);
        let process = &mut self.state.processes[usize::from(owner.process)];
        // An answer for a task that no longer waits is ignored.
        if process.waits_as() != Some(owner) || process.line[0] != ttl {
            return;
        }
        let asked = waiter_lease(ttl);
        match process.head {
            Head::Asks { .. } => process.head = Head::Placed { owner, kept: sent, lease: asked },
            Head::Placed { kept, lease, .. } if kept < sent => {
                let lease = if narrow { lease.min(asked) } else { asked };
                process.head = Head::Placed { owner, kept: sent, lease };
            }
            _ => {}
        }
    }

    fn gone(&mut self, owner: Owner) {
        let i = usize::from(owner.process);
        let process = &self.state.processes[i];
        if !matches!(process.head, Head::Placed { owner: waits, .. } if waits == owner)
            || process.line.is_empty()
        {
            return;
        }
        if self.has(Rule::FreshOwner) {
            self.give_back(owner);
            self.ask(i, None);
        } else {
            self.ask(i, Some(owner));
        }
    }

    fn pushed(&mut self, owner: Owner) {
        let i = usize::from(owner.process);
        let from_kept = self.has(Rule::CountFromKept);
        let process = &self.state.processes[i];
        match process.head {
            Head::Placed { owner: waits, kept, lease } if waits == owner && !process.line.is_empty() => {
                let until = if from_kept { kept + lease } else { NOW + lease };
                // The lease is no longer certain, so the next heartbeat finds the grant.
                if until > NOW {
                    self.serve_head(i, owner, until);
                }
            }
            _ if !self.has(Rule::PushIgnored) => self.give_back(owner),
            _ => {}
        }
    }
}
