//! One key, those who want it, and what is on its way between them.

/// A moment as seen from now, or a span: one tick is a third of a lease. Nothing in a state depends on an absolute
/// time, so time has no end.
pub(crate) type Tick = i8;

pub(crate) const NOW: Tick = 0;
/// The usual lease.
pub(crate) const LONG: Tick = 3;
/// A lease that is shorter than the life of a place.
pub(crate) const BRIEF: Tick = 1;
/// For so long a place is kept, and so long is the lease of a grant that it brings, unless the ttl is shorter.
pub(crate) const PLACE: Tick = 2;
/// A request to take the key that is under way for longer has no effect any more: a SET because its connection is
/// closed, the script because of its not-after.
pub(crate) const LATE: Tick = 1;

/// The lease that a place brings.
pub(crate) fn waiter_lease(ttl: Tick) -> Tick {
    ttl.min(PLACE)
}

/// A rule that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// What was not answered is cancelled again for as long as it may arrive.
    CancelAgain,
    /// Who waits no more gives up the place.
    CancelPlaces,
    /// A grant by push counts from when the last request was sent that was answered with "keep waiting".
    CountFromKept,
    /// A sign of life that finds its owner holding extends the lease to what it answers.
    HeartbeatExtends,
    /// No request makes a lease shorter.
    NeverShorten,
    /// After "gone" a new owner queues.
    FreshOwner,
    /// An owner asks for a place once; who gets no answer asks as another owner.
    OneRequest,
    /// A dead entry leaves both keys of the queue, and half a place is none.
    DropBoth,
    /// A sign of life counts before the queue is looked at in its light.
    SignFirst,
    /// While somebody holds, a place is dropped past its deadline alone.
    DropDeadOnly,
    /// Who takes a place over takes over when it was last kept.
    PlaceKeepsTime,
    /// Who takes a place over counts on no longer a lease than any request for it asked for.
    PlaceKeepsLease,
    /// A head that waits for a holder of its own process is told when that has released.
    ToldOfOwn,
    /// Of repeated cancels each that ends something tells the head, not the first alone.
    ToldByRepeats,
    /// A free key goes to those who wait before a newcomer, except by a plain SET.
    OldestFirst,
    /// A ticket is above all others, also when the server's clock was set back.
    TicketsGrow,
    /// A push that nobody waits for is ignored.
    PushIgnored,
}

/// What may go wrong once in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    /// The server forgets everything.
    LoseData,
    /// The server forgets the order of those who wait.
    LoseQueue,
    /// The server's clock is set back before somebody queues.
    SetBack,
}

/// How much of everything there is.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// The tasks of each process, by the ttl that they ask for.
    pub(crate) tasks: &'static [&'static [Tick]],
    /// Process 0 holds and process 1 has a place and knows it, to begin with.
    pub(crate) queued: bool,
    /// Whether tasks begin with a plain SET.
    pub(crate) grabs: bool,
    /// Owners, signs of life and renewals of each process.
    pub(crate) owners: u8,
    pub(crate) beats: u8,
    pub(crate) renewals: u8,
    /// Unanswered requests of process 0.
    pub(crate) unanswered: u8,
    /// Whether a holder gives the grant to the next of its process.
    pub(crate) turns: bool,
    /// Whether waiters give up.
    pub(crate) leaves: bool,
    /// Any one of these happens at most.
    pub(crate) faults: &'static [Fault],
    /// The rules that are taken away.
    pub(crate) without: &'static [Rule],
}

/// The token of one grant; `process` made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) process: u8,
    pub(crate) number: u8,
}

/// What is on its way. It may arrive late, never, and in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    /// The plain SET.
    Set {
        owner: Owner,
        sent: Tick,
        ttl: Tick,
    },
    /// The acquire script, with a place.
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
    /// A release, of a grant or of a place. A request of its owner may arrive until `until`. `told`: its process has
    /// had one answer.
    Cancel {
        owner: Owner,
        until: Tick,
        told: bool,
    },
    /// The answer to a SET that found the key taken.
    Taken {
        owner: Owner,
    },
    Granted {
        owner: Owner,
        until: Tick,
    },
    /// The place is taken, or kept.
    Waiting {
        owner: Owner,
        sent: Tick,
        ttl: Tick,
    },
    /// No place: the holder is of the same process.
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
    },
    NotOwned {
        owner: Owner,
    },
    /// The store's word that a place was served.
    Push {
        owner: Owner,
    },
    /// A release of this process was answered.
    Freed {
        process: u8,
    },
}

/// The first in line of a process, who alone asks the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Head {
    /// Waits for the holder before it in the line.
    Rests,
    /// Has asked for a place.
    Asks { owner: Owner },
    /// Has a place, and was last told so by the answer to a request of `kept`.
    Placed { owner: Owner, kept: Tick, lease: Tick },
    /// Has found a holder of its own process, whose lease is over at `free`.
    Sleeps { owner: Owner, free: Tick },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) owner: Owner,
    /// Until when it is certainly ours.
    pub(crate) until: Tick,
    pub(crate) ttl: Tick,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    /// Tasks that have not begun, by their ttl.
    pub(crate) tasks: Vec<Tick>,
    /// Tasks in line, by their ttl; the first is the head.
    pub(crate) line: Vec<Tick>,
    pub(crate) head: Head,
    /// A plain SET that was not answered yet.
    pub(crate) grab: Option<(Owner, Tick)>,
    pub(crate) hold: Option<Hold>,
    pub(crate) minted: u8,
    pub(crate) beats: u8,
    pub(crate) renewals: u8,
    pub(crate) unanswered: u8,
}

/// An entry of the hash of waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) owner: Owner,
    /// Past this it is dead.
    pub(crate) until: Tick,
    pub(crate) lease: Tick,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The key: who holds, and until when.
    pub(crate) holder: Option<(Owner, Tick)>,
    /// Who waits, by ticket.
    pub(crate) queue: Vec<Owner>,
    pub(crate) waiting: Vec<Entry>,
    pub(crate) processes: Vec<Process>,
    /// In order, none twice: delivery in any order needs no more.
    pub(crate) net: Vec<Message>,
    /// Whether the one fault is yet to come.
    pub(crate) fault: bool,
    /// The clock was set back, and nobody has queued since.
    pub(crate) set_back: bool,
    /// For the properties: who has queued, in order of arrival, and who ever did, by bits.
    pub(crate) arrived: Vec<Owner>,
    pub(crate) queued: u32,
    /// What went wrong in the step that led here.
    pub(crate) wrong: Option<&'static str>,
}

impl State {
    pub(crate) fn new(size: &Size) -> Self {
        let process = |(i, tasks): (usize, &&[Tick])| Process {
            alive: true,
            tasks: tasks.to_vec(),
            line: Vec::new(),
            head: Head::Rests,
            grab: None,
            hold: None,
            minted: 0,
            beats: size.beats,
            renewals: size.renewals,
            unanswered: if i == 0 { size.unanswered } else { 0 },
        };
        Self {
            holder: None,
            queue: Vec::new(),
            waiting: Vec::new(),
            processes: size.tasks.iter().enumerate().map(process).collect(),
            net: Vec::new(),
            fault: !size.faults.is_empty(),
            set_back: false,
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

    /// Whether the server knows of an owner, or will when a request arrives.
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
    /// The owner that waits in line.
    pub(crate) fn waits_as(&self) -> Option<Owner> {
        match self.head {
            _ if self.line.is_empty() => None,
            Head::Rests => None,
            Head::Asks { owner } | Head::Placed { owner, .. } | Head::Sleeps { owner, .. } => Some(owner),
        }
    }

    /// Whether it was told, for as long as this, that an owner has a place.
    pub(crate) fn counts_on(&self, owner: Owner) -> bool {
        let counts = |kept: Tick, lease: Tick| self.alive && !self.line.is_empty() && kept + lease > NOW;
        matches!(self.head, Head::Placed { owner: waits, kept, lease } if waits == owner && counts(kept, lease))
    }

    /// Whether an owner is still wanted.
    pub(crate) fn wants(&self, owner: Owner) -> bool {
        self.alive
            && (self.waits_as() == Some(owner)
                || self.hold.is_some_and(|hold| hold.owner == owner)
                || self.grab.is_some_and(|(grab, _)| grab == owner))
    }

    /// Whether the first in line waits for others to tell it.
    pub(crate) fn waits_to_be_told(&self) -> bool {
        self.alive && !self.line.is_empty() && matches!(self.head, Head::Rests | Head::Sleeps { .. })
    }

    /// Whether the first in line remembers it when it is told; one with a place has no use for it.
    pub(crate) fn can_be_told(&self) -> bool {
        self.alive && !self.line.is_empty() && !matches!(self.head, Head::Placed { .. })
    }
}
