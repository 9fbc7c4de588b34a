//! One key, the processes that want it, and the messages between them.

/// A time relative to now, or a duration. One tick is a third of a lease. Nothing in a state depends on absolute time,
/// so a run may last for ever.
pub(crate) type Tick = i8;

pub(crate) const NOW: Tick = 0;
/// The usual lease.
pub(crate) const LONG: Tick = 3;
/// A lease that is shorter than the life of a queue entry.
pub(crate) const BRIEF: Tick = 1;
/// The life of a queue entry, and the lease of a grant from the queue, unless the ttl is shorter.
pub(crate) const PLACE: Tick = 2;
/// The longest time that a request for the key is in flight and still has an effect. After it, the connection of a SET
/// is closed, and the not-after time of the script has passed.
pub(crate) const LATE: Tick = 1;
/// The longest time that a released grant lingers.
pub(crate) const LINGER: Tick = 1;

/// Returns the lease of a grant from the queue.
pub(crate) fn waiter_lease(ttl: Tick) -> Tick {
    ttl.min(PLACE)
}

/// A rule that a test can remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// An unanswered request is cancelled again for as long as it may arrive.
    CancelAgain,
    /// A waiter that gives up cancels its queue entry.
    CancelPlaces,
    /// The lease of a grant by push is counted from the last request whose answer was "keep waiting".
    CountFromKept,
    /// A heartbeat of a holder extends the lease to the end that its answer states.
    HeartbeatExtends,
    /// No request shortens a lease.
    NeverShorten,
    /// After the answer "gone" the waiter queues with a new owner.
    FreshOwner,
    /// An owner requests a queue entry only once. Without an answer, the task requests one as another owner.
    OneRequest,
    /// A dead entry is removed from both keys of the queue. An entry in only one of them does not count.
    DropBoth,
    /// A heartbeat is counted before the queue is examined.
    SignFirst,
    /// While the key is held, only entries past their deadline are dropped.
    DropDeadOnly,
    /// A task that takes over a queue entry also takes over the time at which the entry was last confirmed.
    PlaceKeepsTime,
    /// A task that takes over a queue entry relies on the shortest lease that was requested for the entry.
    PlaceKeepsLease,
    /// A head that waits for a holder of its own process is notified of the release.
    ToldOfOwn,
    /// When a cancel is repeated, each cancel that ends something notifies the head, and not only the first one.
    ToldByRepeats,
    /// A free key is granted to waiters before a newcomer, except by a plain SET.
    OldestFirst,
    /// A new ticket is larger than all others, even after the server's clock was set back.
    TicketsGrow,
    /// A push for an owner that no longer waits is ignored.
    PushIgnored,
    /// A claim that queues sets the mark on the holder's value.
    MarkedByQueued,
    /// A heartbeat of a waiter sets the mark if it is missing.
    MarkedByHeartbeat,
    /// A holder that is granted the key by the queue starts with a mark while others wait.
    GrantedMarked,
    /// A release serves the queue if the holder's value is marked. Otherwise it does not read the queue.
    ReleaseLooksWhereMarked,
    /// The value of another library's holder is not marked.
    OnlyOursMarked,
    /// A grant lingers only if no task of its process waits.
    LineBeforeLinger,
    /// A task that begins to wait gets the grant that lingers in its process.
    JoinTakesLinger,
    /// The next holder of a lingering grant gets the rest of its lease.
    LingerKeepsLease,
    /// A lingering grant is released at the end of its linger.
    LingerEnds,
    /// A lingering grant is released when its process is notified of a waiter elsewhere.
    ContendedEndsLinger,
    /// A grant does not linger if its process was notified of a waiter elsewhere during the hold.
    ContendedForbidsLinger,
    /// The notification of a waiter also counts if it arrives before the answer with the grant.
    ContendedCountsEarly,
    /// The answer with a script's grant, and the push of a grant, say whether others wait.
    GrantTellsOfOthers,
    /// No task gets a lingering grant after its release was sent.
    GivenBackIsGone,
    /// A process that ends releases its lingering grants.
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
    /// The server forgets that the holder was marked, as a promoted replica may.
    LoseMark,
}

/// The size of a model.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// The tasks of each process, as the ttls that they request.
    pub(crate) tasks: &'static [&'static [Tick]],
    /// Whether, at first, process 0 holds the key, and process 1 has a queue entry and its answer.
    pub(crate) queued: bool,
    /// Whether tasks begin with a plain SET.
    pub(crate) grabs: bool,
    /// The number of owners, heartbeats and renewals of each process.
    pub(crate) owners: u8,
    pub(crate) beats: u8,
    pub(crate) renewals: u8,
    /// The number of unanswered requests of process 0.
    pub(crate) unanswered: u8,
    /// Whether a holder may hand its grant to the next waiter of its process.
    pub(crate) turns: bool,
    /// Whether waiters may give up.
    pub(crate) leaves: bool,
    /// The process of another library, if there is one. It acquires the key by a plain SET, compares the whole value to
    /// release it, and never waits.
    pub(crate) foreign: Option<u8>,
    /// Whether released grants may linger.
    pub(crate) lingers: bool,
    /// Whether process 0 may end regularly.
    pub(crate) closes: bool,
    /// The possible faults, of which at most one happens.
    pub(crate) faults: &'static [Fault],
    /// The removed rules.
    pub(crate) without: &'static [Rule],
}

/// The token of one grant, made by `process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) process: u8,
    pub(crate) number: u8,
}

/// A message in flight. Messages may arrive late, in any order, or never.
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
    /// A release of a grant or of a queue entry. A request of its owner may arrive until `until`. `told` is whether the
    /// process has already had an answer to this release.
    Cancel {
        owner: Owner,
        until: Tick,
        told: bool,
    },
    /// The answer to a SET that found the key held.
    Taken {
        owner: Owner,
    },
    /// `others` is whether others wait. It is always false in a model without lingering grants.
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
    /// The notification of the store that a queue entry was granted.
    Push {
        owner: Owner,
        others: bool,
    },
    /// The notification of the store that another process waits. A model without lingering grants does not send it.
    Contended {
        process: u8,
    },
    /// The answer to a release of this process.
    Freed {
        process: u8,
    },
}

/// The head of the local queue of a process. Only the head sends requests to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Head {
    /// The head waits for the holder before it in the local queue.
    Rests,
    /// The head has requested a queue entry.
    Asks { owner: Owner },
    /// The head has a queue entry, according to the answer to a request that was sent at `kept`.
    Placed { owner: Owner, kept: Tick, lease: Tick },
    /// The head has found a holder of its own process. The lease of that holder ends at `free`.
    Sleeps { owner: Owner, free: Tick },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) owner: Owner,
    /// The time until which the process certainly holds the key.
    pub(crate) until: Tick,
    pub(crate) ttl: Tick,
}

/// A released grant that lingers in its process.
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
    /// Whether the process has ended regularly. It begins nothing more, and ends its holds.
    pub(crate) closed: bool,
    /// The tasks that have not begun, as their ttls.
    pub(crate) tasks: Vec<Tick>,
    /// The tasks in the local queue, as their ttls. The first one is the head.
    pub(crate) line: Vec<Tick>,
    pub(crate) head: Head,
    /// A plain SET without an answer so far.
    pub(crate) grab: Option<(Owner, Tick)>,
    pub(crate) hold: Option<Hold>,
    pub(crate) linger: Option<Linger>,
    /// Whether the process was notified that another one waits for the grant that it has or requests.
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
    /// For the properties: whether the value has no mark, although the waiter has sent a request since the holder got
    /// the key, or was in the queue at that grant.
    pub(crate) unnoticed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The holder of the key, and the end of its lease.
    pub(crate) holder: Option<(Owner, Tick)>,
    /// Whether the value of the holder is marked. The mark says that others wait or have waited.
    pub(crate) marked: bool,
    /// The waiters, by ticket.
    pub(crate) queue: Vec<Owner>,
    pub(crate) waiting: Vec<Entry>,
    pub(crate) processes: Vec<Process>,
    /// The messages in flight, sorted and without duplicates. This is enough for a delivery in any order.
    pub(crate) net: Vec<Message>,
    /// Whether the one fault may still happen.
    pub(crate) fault: bool,
    /// Whether the clock was set back, and no entry was queued since then.
    pub(crate) set_back: bool,
    /// For the properties: whether the holder acquired by a plain SET although others waited.
    pub(crate) overtook: bool,
    /// For the properties: the queued owners in order of arrival, and all owners that were ever queued, as bits.
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

    /// Makes an owner the holder, or the key free if `holder` is `None`. The new value has no mark, and no waiter
    /// counts as unnoticed.
    pub(crate) fn hold_by(&mut self, holder: Option<(Owner, Tick)>) {
        (self.holder, self.marked) = (holder, false);
        self.waiting.iter_mut().for_each(|entry| entry.unnoticed = false);
    }

    /// Returns whether the server knows an owner, or will know it when a request in flight arrives.
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

    /// Returns whether an owner still has a queue entry, according to the last answers.
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

    /// Returns whether a holder that releases may let its grant linger.
    pub(crate) fn may_linger(&self, size: &Size) -> bool {
        let has = |rule| !size.without.contains(&rule);
        size.lingers
            && self.hold.is_some()
            && !self.closed
            && (self.line.is_empty() || !has(Rule::LineBeforeLinger))
            && !(self.contended && has(Rule::ContendedForbidsLinger))
    }

    /// Returns whether the process has or wants the key, so that notifications of waiters elsewhere matter to it.
    pub(crate) fn is_concerned(&self) -> bool {
        self.alive
            && (self.hold.is_some() || self.linger.is_some() || self.grab.is_some() || !self.line.is_empty())
    }

    /// Returns whether the head of the local queue waits for a notification.
    pub(crate) fn waits_to_be_told(&self) -> bool {
        self.alive && !self.line.is_empty() && matches!(self.head, Head::Rests | Head::Sleeps { .. })
    }

    /// Returns whether the head of the local queue remembers a notification. A head with a queue entry does not need
    /// one.
    pub(crate) fn can_be_told(&self) -> bool {
        self.alive && !self.line.is_empty() && !matches!(self.head, Head::Placed { .. })
    }
}
