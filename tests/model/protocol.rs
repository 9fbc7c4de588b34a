//! One key, the processes that want it, and the messages between them.

/// A time relative to now, or a duration: one tick is a third of a lease. Nothing in a state depends on absolute time,
/// so time has no end.
pub(crate) type Tick = i8;

pub(crate) const NOW: Tick = 0;
/// The usual lease.
pub(crate) const LONG: Tick = 3;
/// A lease that is shorter than the life of a queue entry.
pub(crate) const BRIEF: Tick = 1;
/// The life of a queue entry, and the lease of a grant from the queue, unless the ttl is shorter.
pub(crate) const PLACE: Tick = 2;
/// A request for the key that is in flight for longer has no effect any more: a SET because its connection is closed,
/// the script because of its not-after time.
pub(crate) const LATE: Tick = 1;
/// How long a released grant lingers at most.
pub(crate) const LINGER: Tick = 1;

/// Returns the lease of a grant from the queue.
pub(crate) fn waiter_lease(ttl: Tick) -> Tick {
    ttl.min(PLACE)
}

/// A rule that a test can remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A request without an answer is cancelled again for as long as it may arrive.
    CancelAgain,
    /// A waiter that stops waiting gives its queue entry up.
    CancelPlaces,
    /// A grant by push is counted from the last request that was answered with "keep waiting".
    CountFromKept,
    /// A heartbeat of a holder extends the lease to the end that it answers.
    HeartbeatExtends,
    /// No request shortens a lease.
    NeverShorten,
    /// After "gone" the waiter queues with a new owner.
    FreshOwner,
    /// An owner asks for a queue entry once; without an answer the task asks as another owner.
    OneRequest,
    /// A dead entry is removed from both keys of the queue, and half an entry is none.
    DropBoth,
    /// A heartbeat is counted before the queue is examined.
    SignFirst,
    /// While the key is held, only entries past their deadline are dropped.
    DropDeadOnly,
    /// A task that takes a queue entry over also takes over the time at which it was last kept.
    PlaceKeepsTime,
    /// A task that takes a queue entry over relies on the shortest lease that was requested for it.
    PlaceKeepsLease,
    /// A head that waits for a holder of its own process is notified of the release.
    ToldOfOwn,
    /// When a cancel is repeated, each one that ends something notifies the head, and not only the first.
    ToldByRepeats,
    /// A free key goes to waiters before a newcomer, except by a plain SET.
    OldestFirst,
    /// A ticket is larger than all others, also after the server's clock was set back.
    TicketsGrow,
    /// A push for an owner that does not wait is ignored.
    PushIgnored,
    /// A claim that queues marks the value of the holder.
    MarkedByQueued,
    /// So does a sign of life, if the mark is missing.
    MarkedByHeartbeat,
    /// A holder that the queue grants starts marked while others wait.
    GrantedMarked,
    /// A release serves the queue if its value is marked, and otherwise reads nothing.
    ReleaseLooksWhereMarked,
    /// The value of a holder of another library is left alone.
    OnlyOursMarked,
    /// A grant lingers only if no task of its process waits.
    LineBeforeLinger,
    /// A task that begins to wait takes the grant that lingers in its process.
    JoinTakesLinger,
    /// The next holder of a lingering grant has what is left of its lease.
    LingerKeepsLease,
    /// A grant that lingers is given back at the end of its linger.
    LingerEnds,
    /// A grant that lingers is given back when its process is notified of a waiter elsewhere.
    ContendedEndsLinger,
    /// A grant does not linger if its process was notified of a waiter elsewhere while it was held.
    ContendedForbidsLinger,
    /// The notification of a waiter counts for a grant whose answer it overtook.
    ContendedCountsEarly,
    /// A grant by a script, and the push of one, say whether others wait.
    GrantTellsOfOthers,
    /// No task takes a lingering grant when its release has been sent.
    GivenBackIsGone,
    /// A process that ends gives lingering grants back.
    CloseEndsLinger,
}

/// A fault that may happen once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    /// The server forgets everything.
    LoseData,
    /// The server forgets the order of the waiters.
    LoseQueue,
    /// The server's clock is set back before a claim is queued.
    SetBack,
    /// The server forgets that the holder was marked, as a replica may that is promoted.
    LoseMark,
}

/// The size of a model.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// The tasks of each process, by the ttl that they request.
    pub(crate) tasks: &'static [&'static [Tick]],
    /// Whether, at first, process 0 holds, and process 1 has a queue entry and knows it.
    pub(crate) queued: bool,
    /// Whether tasks begin with a plain SET.
    pub(crate) grabs: bool,
    /// The number of owners, heartbeats and renewals of each process.
    pub(crate) owners: u8,
    pub(crate) beats: u8,
    pub(crate) renewals: u8,
    /// The number of unanswered requests of process 0.
    pub(crate) unanswered: u8,
    /// Whether a holder hands its grant to the next waiter of its process.
    pub(crate) turns: bool,
    /// Whether waiters give up.
    pub(crate) leaves: bool,
    /// The process of another library: it takes the key by a plain SET, compares its whole value to release it, and
    /// never waits.
    pub(crate) foreign: Option<u8>,
    /// Whether released grants may linger.
    pub(crate) lingers: bool,
    /// Whether process 0 may end in good order.
    pub(crate) closes: bool,
    /// At most one of these faults happens.
    pub(crate) faults: &'static [Fault],
    /// The rules that are removed.
    pub(crate) without: &'static [Rule],
}

/// The token of one grant, made by `process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) process: u8,
    pub(crate) number: u8,
}

/// A message in flight. It may arrive late, never, and in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    /// The plain SET.
    Set {
        owner: Owner,
        sent: Tick,
        ttl: Tick,
    },
    /// The acquire script that queues.
    Enqueue {
        owner: Owner,
        sent: Tick,
        ttl: Tick,
    },
    Heartbeat {
        owner: Owner,
        sent: Tick,
        ttl: Tick,
    },
    Renew {
        owner: Owner,
        sent: Tick,
        ttl: Tick,
    },
    /// A release of a grant or of a queue entry. A request of its owner may arrive until `until`. `told`: its process
    /// has had one answer.
    Cancel {
        owner: Owner,
        until: Tick,
        told: bool,
    },
    /// The answer to a SET that found the key held.
    Taken {
        owner: Owner,
    },
    /// `others`: others wait. Not said in a model without lingering grants.
    Granted {
        owner: Owner,
        until: Tick,
        others: bool,
    },
    /// The claim is queued, or its entry was kept.
    Waiting {
        owner: Owner,
        sent: Tick,
        ttl: Tick,
    },
    /// The claim is not queued, because the holder is of the same process.
    Own {
        owner: Owner,
        free: Tick,
    },
    Gone {
        owner: Owner,
    },
    Renewed {
        owner: Owner,
        until: Tick,
        others: bool,
    },
    NotOwned {
        owner: Owner,
    },
    /// The store's notification that a queue entry was granted.
    Push {
        owner: Owner,
        others: bool,
    },
    /// The store's notification that another process waits. Not sent in a model without lingering grants.
    Contended {
        process: u8,
    },
    /// A release of this process was answered.
    Freed {
        process: u8,
    },
}

/// The head of the local queue of a process, which alone asks the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Head {
    /// Waits for the holder before it in the local queue.
    Rests,
    /// Has asked for a queue entry.
    Asks { owner: Owner },
    /// Has a queue entry, as the answer to a request of `kept` last said.
    Placed { owner: Owner, kept: Tick, lease: Tick },
    /// Has found a holder of its own process; the lease of that holder ends at `free`.
    Sleeps { owner: Owner, free: Tick },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) owner: Owner,
    /// The time until which the process certainly holds the key.
    pub(crate) until: Tick,
    pub(crate) ttl: Tick,
}

/// A released grant that its process keeps at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Linger {
    pub(crate) owner: Owner,
    /// The time until which the process certainly has the key.
    pub(crate) until: Tick,
    /// The end of the linger.
    pub(crate) end: Tick,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    /// It has ended in good order: it begins nothing, and ends what it holds.
    pub(crate) closed: bool,
    /// The tasks that have not begun, by their ttl.
    pub(crate) tasks: Vec<Tick>,
    /// The tasks in the local queue, by their ttl; the first is the head.
    pub(crate) line: Vec<Tick>,
    pub(crate) head: Head,
    /// A plain SET that was not answered yet.
    pub(crate) grab: Option<(Owner, Tick)>,
    pub(crate) hold: Option<Hold>,
    pub(crate) linger: Option<Linger>,
    /// Whether it knows that another process waits for the grant that it has or asks for.
    pub(crate) contended: bool,
    pub(crate) minted: u8,
    pub(crate) beats: u8,
    pub(crate) renewals: u8,
    pub(crate) unanswered: u8,
}

/// An entry of the hash of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    /// The entry is dead after this time.
    pub(crate) until: Tick,
    pub(crate) lease: Tick,
    /// For the properties: it has asked since the holder got the key, or was in the queue that granted it, and there is
    /// no mark.
    pub(crate) unnoticed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The holder of the key, and the end of its lease.
    pub(crate) holder: Option<(Owner, Tick)>,
    /// The value of the holder is marked: others wait, or did.
    pub(crate) marked: bool,
    /// The waiters, by ticket.
    pub(crate) queue: Vec<Owner>,
    pub(crate) waiting: Vec<Entry>,
    pub(crate) processes: Vec<Process>,
    /// Sorted and without duplicates, which is enough for a delivery in any order.
    pub(crate) net: Vec<Message>,
    /// Whether the one fault may still happen.
    pub(crate) fault: bool,
    /// Whether the clock was set back, and no entry was queued since.
    pub(crate) set_back: bool,
    /// For the properties: whether the holder came by a plain SET although others waited.
    pub(crate) overtook: bool,
    /// For the properties: the queued owners in order of arrival, and all that were ever queued, as bits.
    pub(crate) arrived: Vec<Owner>,
    pub(crate) queued: u32,
    /// The property that the last step broke.
    pub(crate) wrong: Option<&'static str>,
}

impl State {
    pub(crate) fn new(size: &Size) -> Self {
        let process = |(i, tasks): (usize, &&[Tick])| Process {
            alive: true,
            closed: false,
            tasks: tasks.to_vec(),
            line: Vec::new(),
            head: Head::Rests,
            grab: None,
            hold: None,
            linger: None,
            contended: false,
            minted: 0,
            beats: size.beats,
            renewals: size.renewals,
            unanswered: if i == 0 { size.unanswered } else { 0 },
        };
        Self {
            holder: None,
            marked: false,
            queue: Vec::new(),
            waiting: Vec::new(),
            processes: size.tasks.iter().enumerate().map(process).collect(),
            net: Vec::new(),
            fault: !size.faults.is_empty(),
            set_back: false,
            overtook: false,
            arrived: Vec::new(),
            queued: 0,
            wrong: None,
        }
    }

    pub(crate) fn process(&self, owner: Owner) -> &Process {
        &self.processes[usize::from(owner.process)]
    }

    pub(crate) fn entry(&self, owner: Owner) -> Option<&Entry> {
        self.waiting.iter().find(|entry| entry.owner == owner)
    }

    pub(crate) fn holds(&self, owner: Owner) -> bool {
        self.holder.is_some_and(|(holder, _)| holder == owner)
    }

    /// Makes an owner the holder; with `None` the key is free. At first its value has no mark, and all waiters were
    /// there before it.
    pub(crate) fn hold_by(&mut self, holder: Option<(Owner, Tick)>) {
        (self.holder, self.marked) = (holder, false);
        self.waiting.iter_mut().for_each(|entry| entry.unnoticed = false);
    }

    /// Returns whether the server knows an owner, or will when a request arrives.
    pub(crate) fn is_known(&self, owner: Owner) -> bool {
        let asks = |message: &Message| match *message {
            Message::Set { owner: asks, .. } | Message::Enqueue { owner: asks, .. } => asks == owner,
            _ => false,
        };
        self.holds(owner)
            || self.entry(owner).is_some()
            || self.queue.contains(&owner)
            || self.net.iter().any(asks)
    }

    pub(crate) fn send(&mut self, message: Message) {
        if let Err(at) = self.net.binary_search(&message) {
            self.net.insert(at, message);
        }
    }

    pub(crate) fn take(&mut self, message: Message) {
        if let Ok(at) = self.net.binary_search(&message) {
            self.net.remove(at);
        }
    }
}

impl Process {
    /// Returns the owner that waits in the local queue.
    pub(crate) fn waits_as(&self) -> Option<Owner> {
        match self.head {
            _ if self.line.is_empty() => None,
            Head::Rests => None,
            Head::Asks { owner } | Head::Placed { owner, .. } | Head::Sleeps { owner, .. } => Some(owner),
        }
    }

    /// Returns whether the last answers say that an owner still has a queue entry.
    pub(crate) fn counts_on(&self, owner: Owner) -> bool {
        let counts = |kept: Tick, lease: Tick| self.alive && !self.line.is_empty() && kept + lease > NOW;
        matches!(self.head, Head::Placed { owner: waits, kept, lease } if waits == owner && counts(kept, lease))
    }

    /// Returns whether the process still wants an owner.
    pub(crate) fn wants(&self, owner: Owner) -> bool {
        self.alive
            && (self.waits_as() == Some(owner)
                || self.hold.is_some_and(|hold| hold.owner == owner)
                || !self.closed && self.linger.is_some_and(|linger| linger.owner == owner)
                || self.grab.is_some_and(|(grab, _)| grab == owner))
    }

    /// Returns whether a holder that releases may leave its grant at hand.
    pub(crate) fn may_linger(&self, size: &Size) -> bool {
        let has = |rule| !size.without.contains(&rule);
        size.lingers
            && self.hold.is_some()
            && !self.closed
            && (self.line.is_empty() || !has(Rule::LineBeforeLinger))
            && !(self.contended && has(Rule::ContendedForbidsLinger))
    }

    /// Returns whether it has the key or wants it, so that it takes note of waiters elsewhere.
    pub(crate) fn is_concerned(&self) -> bool {
        self.alive
            && (self.hold.is_some() || self.linger.is_some() || self.grab.is_some() || !self.line.is_empty())
    }

    /// Returns whether the head of the local queue waits for a notification.
    pub(crate) fn waits_to_be_told(&self) -> bool {
        self.alive && !self.line.is_empty() && matches!(self.head, Head::Rests | Head::Sleeps { .. })
    }

    /// Returns whether the head of the local queue remembers a notification; a head with a queue entry does not need
    /// it.
    pub(crate) fn can_be_told(&self) -> bool {
        self.alive && !self.line.is_empty() && !matches!(self.head, Head::Placed { .. })
    }
}
