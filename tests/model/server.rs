//! The scripts of the server. Each script is one step.

use super::properties::{KEPT, SERVED};
use super::protocol::{Entry, LATE, Message, NOW, Owner, Rule, Tick, waiter_lease};
use super::world::World;

impl World<'_> {
    /// Executes a message on the server, and sends its answer.
    pub(crate) fn serve(&mut self, message: Message) {
        let answer = match message {
            Message::Set { owner, sent, ttl } => self.set(owner, sent, ttl),
            Message::Enqueue { owner, sent, ttl } => self.acquire(owner, sent, ttl),
            Message::Heartbeat { owner, sent, ttl } => Some(self.heartbeat(owner, sent, ttl)),
            Message::Renew { owner, sent, ttl } => Some(self.renew(owner, sent, ttl)),
            Message::Cancel { owner, until, told } => self.release(owner, until, told),
            _ => None,
        };
        if let Some(answer) = answer {
            self.state.send(answer);
        }
    }

    fn set(&mut self, owner: Owner, sent: Tick, ttl: Tick) -> Option<Message> {
        if NOW > sent + LATE {
            return None;
        }
        if self.state.holder.is_some() {
            return Some(Message::Taken { owner });
        }
        self.state.hold_by(Some((owner, NOW + ttl)));
        self.state.overtook = self.others();
        // The answer to a plain SET does not report waiters.
        Some(Message::Granted { owner, until: sent + ttl, others: false })
    }

    fn acquire(&mut self, owner: Owner, sent: Tick, ttl: Tick) -> Option<Message> {
        if NOW > sent + LATE {
            return None;
        }
        if self.state.holds(owner) {
            self.extend(ttl);
            return Some(self.granted_by_script(owner, sent + ttl));
        }
        if self.state.holder.is_none() && self.has(Rule::OldestFirst) && self.serve_queue(Some(owner), ttl) {
            return Some(self.granted_by_script(owner, sent + ttl));
        }
        if self.state.holder.is_none() {
            self.put(owner, ttl);
            return Some(self.granted_by_script(owner, sent + ttl));
        }
        let (holder, free) = self.state.holder.expect("BUG: it is held");
        if self.state.entry(owner).is_none() {
            if holder.process == owner.process {
                return Some(Message::Own { owner, free });
            }
            if self.size.lingers && self.state.waiting.is_empty() {
                self.state.send(Message::Contended { process: holder.process });
            }
            self.join(owner);
        }
        self.stay(owner, ttl);
        self.mark(owner, Rule::MarkedByQueued);
        Some(Message::Waiting { owner, sent, ttl })
    }

    /// Returns whether others wait, if the model takes account of this.
    fn others(&self) -> bool {
        self.size.lingers && !self.state.waiting.is_empty()
    }

    fn granted_by_script(&self, owner: Owner, until: Tick) -> Message {
        Message::Granted { owner, until, others: self.others() && self.has(Rule::GrantTellsOfOthers) }
    }

    fn heartbeat(&mut self, owner: Owner, sent: Tick, ttl: Tick) -> Message {
        if self.state.holds(owner) {
            if self.has(Rule::HeartbeatExtends) {
                self.extend(ttl);
            }
            return self.granted_by_script(owner, sent + ttl);
        }
        let half = self.state.entry(owner).is_some() && !self.state.queue.contains(&owner);
        if self.has(Rule::DropBoth) && half || self.state.entry(owner).is_none() {
            self.leave(owner);
            return Message::Gone { owner };
        }
        if !self.has(Rule::SignFirst) {
            self.drop_beside(owner);
        }
        // The heartbeat is counted first, so that a paused waiter is not dropped by its own heartbeat.
        self.stay(owner, ttl);
        if self.state.holder.is_none() && self.serve_queue(Some(owner), ttl) {
            return self.granted_by_script(owner, sent + ttl);
        }
        self.drop_beside(owner);
        self.mark(owner, Rule::MarkedByHeartbeat);
        Message::Waiting { owner, sent, ttl }
    }

    fn renew(&mut self, owner: Owner, sent: Tick, ttl: Tick) -> Message {
        if !self.state.holds(owner) {
            return Message::NotOwned { owner };
        }
        self.extend(ttl);
        Message::Renewed { owner, until: sent + ttl, others: self.others() }
    }

    /// Executes a release, and the reaction of the process to its answer. The process repeats a release that may have
    /// arrived too early, and notifies the head once.
    fn release(&mut self, owner: Owner, until: Tick, told: bool) -> Option<Message> {
        let foreign = self.is_foreign(owner);
        // Another library compares the whole value, and no longer finds it after a waiter has marked it.
        let mine = self.state.holds(owner) && !(foreign && self.state.marked);
        let looks = !mine || !foreign && self.state.marked && self.has(Rule::ReleaseLooksWhereMarked);
        if mine {
            if !looks && self.is_awaited() {
                self.state.wrong = Some(SERVED);
            }
            self.state.hold_by(None);
        }
        let ended = mine || self.leave(owner);
        if ended && looks && self.state.holder.is_none() {
            self.serve_queue(None, NOW);
        }
        if !ended && NOW <= until && self.has(Rule::CancelAgain) {
            self.state.send(Message::Cancel { owner, until, told: true });
        }
        let tells = !told || ended && self.has(Rule::ToldByRepeats);
        (tells && self.has(Rule::ToldOfOwn)).then_some(Message::Freed { process: owner.process })
    }

    fn is_foreign(&self, owner: Owner) -> bool {
        self.size.foreign == Some(owner.process)
    }

    /// Returns whether a live waiter relies on the release of the holder.
    fn is_awaited(&self) -> bool {
        let counts = |entry: &Entry| entry.until > NOW && (self.state.marked || entry.unnoticed);
        self.state.waiting.iter().any(|entry| counts(entry) && self.state.queue.contains(&entry.owner))
    }

    /// Marks the value of the holder on behalf of this waiter.
    fn mark(&mut self, waiter: Owner, rule: Rule) {
        let Some((holder, _)) = self.state.holder else { return };
        let ours = !self.is_foreign(holder);
        self.state.marked |= self.has(rule) && (ours || !self.has(Rule::OnlyOursMarked));
        let unnoticed = ours && !self.state.marked;
        let entries = self.state.waiting.iter_mut().filter(|entry| entry.owner == waiter);
        entries.for_each(|entry| entry.unnoticed = unnoticed);
    }

    /// Grants a free key to the first live waiter, and drops the dead ones before it. Returns whether this waiter is
    /// `me`. `me` gets `ttl` and no push, because the answer reports the grant.
    fn serve_queue(&mut self, me: Option<Owner>, ttl: Tick) -> bool {
        while !self.state.queue.is_empty() {
            let first = self.state.queue.remove(0);
            let entry = self.state.entry(first).copied().filter(|entry| entry.until > NOW);
            let Some(entry) = entry else {
                if self.has(Rule::DropBoth) {
                    self.leave(first);
                }
                continue;
            };
            if me == Some(first) {
                self.put(first, ttl);
                return true;
            }
            self.put(first, entry.lease);
            let others = self.others() && self.has(Rule::GrantTellsOfOthers);
            self.state.send(Message::Push { owner: first, others });
            return false;
        }
        false
    }

    /// Drops the dead neighbours of a waiter. If there are any, drops all dead entries, because the queues are short
    /// here.
    fn drop_beside(&mut self, owner: Owner) {
        let Some(place) = self.state.queue.iter().position(|other| *other == owner) else { return };
        if self.sweep(owner, place.saturating_sub(1), place + 1) {
            self.sweep(owner, 0, usize::MAX);
        }
    }

    /// Drops the entries between two positions whose deadline has passed. Returns whether there was one. Without the
    /// rule `DropDeadOnly`, drops all but `me`.
    fn sweep(&mut self, me: Owner, first: usize, last: usize) -> bool {
        let spares = |owner: Owner| {
            let lives = self.state.entry(owner).is_some_and(|entry| entry.until > NOW);
            lives && (owner == me || self.has(Rule::DropDeadOnly))
        };
        let places = self.state.queue.iter().enumerate().filter(|(at, _)| (first..=last).contains(at));
        let dead: Vec<Owner> = places.map(|(_, owner)| *owner).filter(|owner| !spares(*owner)).collect();
        for &owner in &dead {
            if self.state.process(owner).counts_on(owner) {
                self.state.wrong = Some(KEPT);
            }
            if self.has(Rule::DropBoth) {
                self.leave(owner);
            } else {
                self.state.queue.retain(|other| *other != owner);
            }
        }
        !dead.is_empty()
    }

    /// Makes an owner the holder, as a script does.
    fn put(&mut self, owner: Owner, lease: Tick) {
        let lives = |owner: &&Owner| self.state.entry(**owner).is_some_and(|entry| entry.until > NOW);
        if self.state.arrived.iter().find(lives).is_some_and(|first| *first != owner) {
            self.state.wrong = Some("who waits is served in order of arrival");
        }
        self.leave(owner);
        self.state.overtook = false;
        self.state.hold_by(Some((owner, NOW + lease)));
        self.state.marked = !self.state.waiting.is_empty() && self.has(Rule::GrantedMarked);
        let unnoticed = !self.state.marked;
        self.state.waiting.iter_mut().for_each(|entry| entry.unnoticed = unnoticed);
    }

    fn extend(&mut self, lease: Tick) {
        let keeps = self.has(Rule::NeverShorten);
        if let Some((_, ends)) = &mut self.state.holder {
            *ends = if keeps { (*ends).max(NOW + lease) } else { NOW + lease };
        }
    }

    fn join(&mut self, owner: Owner) {
        let bit = 1 << (u32::from(owner.process) * 8 + u32::from(owner.number % 8));
        if owner.number < 8 && self.state.queued & bit != 0 {
            self.state.wrong = Some("an owner queues at most once");
        }
        self.state.queued |= bit;
        let first = self.state.set_back && !self.has(Rule::TicketsGrow);
        self.state.set_back = false;
        self.state.queue.insert(if first { 0 } else { self.state.queue.len() }, owner);
        self.state.arrived.push(owner);
    }

    /// Records a heartbeat.
    fn stay(&mut self, owner: Owner, ttl: Tick) {
        let lease = waiter_lease(ttl);
        self.state.waiting.retain(|entry| entry.owner != owner);
        let at = self.state.waiting.partition_point(|entry| entry.owner < owner);
        self.state.waiting.insert(at, Entry { owner, until: NOW + lease, lease, unnoticed: false });
    }

    /// Removes a queue entry. Returns whether there was one.
    fn leave(&mut self, owner: Owner) -> bool {
        let before = self.state.queue.len() + self.state.waiting.len();
        self.state.queue.retain(|other| *other != owner);
        self.state.waiting.retain(|entry| entry.owner != owner);
        self.state.arrived.retain(|other| *other != owner);
        self.state.queue.len() + self.state.waiting.len() < before
    }
}
