//! A model of fencing tokens on demand: the store creates some tokens, and a process numbers its own hand-offs. The
//! model does not examine who may hold the key, so the key is acquired and extended in one step. Messages for tokens
//! and releases may be late or lost.
//!
//! Each tick of the clock has one number, as if a tick were a microsecond. So a process can use up all numbers. The
//! creation of a token takes longer than a microsecond, and so does a loss of data.

use super::explorer::Model;

pub(crate) const GROW: &str = "fencing tokens grow in order of use";

/// A rule that a test can remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A process uses at most as many numbers as ticks have passed since its first number arrived.
    BoundByTime,
    /// The limit counts until the last request that the store has confirmed, and not until the present time.
    BoundByConfirmed,
    /// A new token is at least the server's time.
    AtLeastTime,
    /// A new token is larger than the last one.
    AboveLast,
    /// A release raises the last token to the last number of its process.
    ReleaseRaises,
    /// The request for a token contains the last number of its process.
    AboveOwn,
    /// A repeated request gets the same token only for the same hand-off.
    OfTheTurn,
    /// No hand-off is numbered from a token that is ahead of the server's clock.
    AheadIsNoBase,
    /// A holder that has handed off gets no token any more, even if it requested one before.
    EndedGetsNone,
    /// The last token is remembered for at least as long as the clock may be set back.
    RememberedAsLong,
    /// A renewal prolongs the memory of the last token.
    RenewalKeeps,
}

/// When the server's clock may be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetBack {
    Never,
    /// The clock is set back while the key is free, and no holder has died with a token that the store does not know.
    BetweenGrants,
    /// The clock is set back while the holder has a token. The model ends when that token is forgotten.
    WhileHeld,
    AtAnyTime,
}

/// The size of a model.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    /// The duration in ticks.
    pub(crate) end: u8,
    /// The lease in ticks.
    pub(crate) ttl: u8,
    /// The number of hand-offs of one grant.
    pub(crate) turns: u8,
    /// The number of token requests by one holder.
    pub(crate) asks: u8,
    /// Whether holders may die, and lose their grants when the lease expires.
    pub(crate) deaths: bool,
    /// Whether the server may once forget everything, or only the lock.
    pub(crate) loses: bool,
    /// The total number of grants.
    pub(crate) grants: u8,
    /// When the server's clock may be set back, once.
    pub(crate) set_back: SetBack,
    /// The number of ticks by which the clock is set back.
    pub(crate) back: u8,
    /// The number of ticks of the server's clock for which the last token is remembered. They count from its creation
    /// or from the last renewal.
    pub(crate) kept: u8,
    /// The removed rules.
    pub(crate) without: &'static [Rule],
}

/// The base of the next numbers: a time of the store, and the last number that was assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Base {
    first: u8,
    arrived: u8,
    last: u8,
}

impl Base {
    /// Returns the next number, if it is below the store's time at `confirmed`.
    fn next(self, confirmed: u8) -> Option<Self> {
        let last = self.last + 1;
        (last < self.first + confirmed.saturating_sub(self.arrived)).then_some(Self { last, ..self })
    }
}

/// A grant in use. Owners are numbered in the order of their grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hold {
    owner: u8,
    turn: u8,
    until: u8,
    /// The time at which the last confirmed renewal was sent.
    confirmed: u8,
    asked: u8,
    made: Option<Base>,
    earlier: Option<Base>,
    ahead: bool,
    own: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Message {
    Fence { owner: u8, turn: u8, own: u8 },
    Number { owner: u8, turn: u8, number: u8, ahead: bool },
    Release { owner: u8, own: u8 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The clock by which processes measure.
    now: u8,
    /// How far the server's clock is behind.
    behind: u8,
    may_lose: bool,
    may_set_back: bool,
    holder: Option<(u8, u8)>,
    /// The last token, and its owner.
    last: u8,
    of: Option<(u8, u8)>,
    /// The time at which the server forgets the last token, by its own clock.
    kept: u8,
    holds: Vec<Hold>,
    net: Vec<Message>,
    owners: u8,
    /// The first and the largest token that each owner used.
    used: Vec<(u8, u8)>,
    wrong: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Tick,
    LoseData,
    /// Deletes the lock.
    LoseLock,
    SetBack,
    /// Grants the key to a process, with a plain SET.
    Grant,
    /// Requests a token. A process that can do so numbers its own hand-off instead.
    Ask(u8),
    Renew(u8),
    /// Hands the grant to the next waiter of its process.
    Turn(u8),
    Release(u8),
    Die(u8),
    Deliver(Message),
    Drop(Message),
}

pub(crate) struct Fencing(pub(crate) Size);

impl Fencing {
    fn has(&self, rule: Rule) -> bool {
        !self.0.without.contains(&rule)
    }

    fn fence(&self, state: &mut State, owner: u8, turn: u8, own: u8) {
        if state.holder.is_none_or(|(holder, _)| holder != owner) {
            return;
        }
        let of = if self.has(Rule::OfTheTurn) { Some((owner, turn)) } else { Some((owner, 0)) };
        let time = state.now - state.behind;
        if state.of != of {
            let mut number = 1;
            for (rule, least) in
                [(Rule::AtLeastTime, time), (Rule::AboveLast, state.last + 1), (Rule::AboveOwn, own + 1)]
            {
                number = if self.has(rule) { number.max(least) } else { number };
            }
            (state.last, state.of) = (number, of);
        }
        self.keep(state);
        let number = state.last;
        state.send(Message::Number { owner, turn, number, ahead: number > time });
    }

    /// Makes the server remember the last token.
    fn keep(&self, state: &mut State) {
        let kept = if self.has(Rule::RememberedAsLong) { self.0.kept } else { 0 };
        state.kept = state.now - state.behind + kept;
    }

    fn number(&self, state: &mut State, (owner, turn): (u8, u8), number: u8, ahead: bool) {
        let now = state.now;
        let Some(hold) = state.holds.iter_mut().find(|hold| hold.owner == owner) else { return };
        let mut used = number;
        if hold.turn == turn && hold.made.is_none() {
            hold.ahead |= ahead;
            let made = Base { first: number, arrived: now, last: number };
            // The base is the store's time alone if earlier holders were numbered in this process.
            let ahead = hold.ahead && self.has(Rule::AheadIsNoBase);
            let earlier = hold.earlier.filter(|_| !ahead);
            let next = earlier.and_then(|earlier| Base { last: earlier.last, ..made }.next(now));
            let made = next.unwrap_or(made);
            used = made.last;
            if next.is_some() {
                hold.own = hold.own.max(used);
            }
            hold.made = Some(made);
        } else if hold.turn == turn || self.has(Rule::EndedGetsNone) {
            return;
        }
        state.uses(owner, used);
    }

    /// Numbers a holder in its process, or requests a token from the store.
    fn ask(&self, state: &mut State, owner: u8) {
        let now = state.now;
        let Some(hold) = state.holds.iter_mut().find(|hold| hold.owner == owner) else { return };
        let shown = if self.has(Rule::BoundByConfirmed) { hold.confirmed } else { now };
        let shown = if self.has(Rule::BoundByTime) { shown } else { u8::MAX / 2 };
        if let Some(made) = hold.earlier.and_then(|base| base.next(shown)) {
            hold.made = Some(made);
            hold.own = hold.own.max(made.last);
            state.uses(owner, made.last);
        } else {
            hold.asked += 1;
            let (turn, own) = (hold.turn, hold.own);
            state.send(Message::Fence { owner, turn, own });
        }
    }

    fn turn(&self, state: &mut State, owner: u8) {
        let Some(hold) = state.holds.iter_mut().find(|hold| hold.owner == owner) else { return };
        let ahead = hold.ahead && self.has(Rule::AheadIsNoBase);
        hold.earlier = match hold.made {
            Some(_) if ahead => None,
            made => made.or(hold.earlier),
        };
        (hold.turn, hold.asked, hold.made) = (hold.turn + 1, 0, None);
    }

    fn renew(&self, state: &mut State, owner: u8) {
        let (now, until) = (state.now, state.now + self.0.ttl);
        let Some(hold) = state.holds.iter_mut().find(|hold| hold.owner == owner) else { return };
        if state.holder.is_some_and(|(holder, _)| holder == owner) {
            state.holder = Some((owner, until));
            (hold.until, hold.confirmed) = (until, now);
            let raises = hold.own > state.last;
            if raises {
                (state.last, state.of) = (hold.own, None);
            }
            if raises || (self.has(Rule::RenewalKeeps) && state.last > 0) {
                self.keep(state);
            }
        }
    }

    fn release(&self, state: &mut State, owner: u8, own: u8) {
        if state.holder.is_some_and(|(holder, _)| holder == owner) {
            state.holder = None;
            if self.has(Rule::ReleaseRaises) && own > state.last {
                (state.last, state.of) = (own, None);
                self.keep(state);
            }
        }
    }
}

impl State {
    fn send(&mut self, message: Message) {
        if let Err(at) = self.net.binary_search(&message) {
            self.net.insert(at, message);
        }
    }

    /// Checks that a token is larger than all tokens of earlier owners, and smaller than all tokens of later owners. If
    /// the server lost the grant with its data, the owner may not know of later owners.
    fn uses(&mut self, owner: u8, number: u8) {
        let at = usize::from(owner);
        self.wrong |= self.used[..=at].iter().any(|(_, largest)| *largest >= number);
        self.wrong |= self.used[at + 1..].iter().any(|(first, _)| *first != 0 && *first <= number);
        let (first, largest) = &mut self.used[at];
        *first = if *first == 0 { number } else { *first };
        *largest = number;
    }

    fn tick(&mut self) {
        self.now += 1;
        let now = self.now;
        self.holder = self.holder.filter(|(_, ends)| *ends > now);
        self.holds.retain(|hold| hold.until > now);
        if now - self.behind > self.kept {
            (self.last, self.of) = (0, None);
        }
    }
}

impl Model for Fencing {
    type State = State;
    type Step = Step;

    fn initial(&self) -> State {
        State {
            now: self.0.back,
            behind: 0,
            may_lose: self.0.loses,
            may_set_back: self.0.set_back != SetBack::Never,
            holder: None,
            last: 0,
            of: None,
            kept: 0,
            holds: Vec::new(),
            net: Vec::new(),
            owners: 0,
            used: Vec::new(),
            wrong: false,
        }
    }

    fn steps(&self, state: &State, steps: &mut Vec<Step>) {
        let ends = state.holder.is_some_and(|(_, ends)| ends == state.now + 1);
        let while_held = self.0.set_back == SetBack::WhileHeld && !state.may_set_back;
        let forgets = while_held && state.now - state.behind == state.kept;
        if state.now < self.0.end && (self.0.deaths || !ends) && !forgets {
            steps.push(Step::Tick);
        }
        if state.may_lose {
            steps.push(Step::LoseData);
            if state.holder.is_some() {
                steps.push(Step::LoseLock);
            }
        }
        let known = state.used.iter().all(|(_, used)| *used <= state.last || state.last == 0);
        let may = match self.0.set_back {
            SetBack::Never => false,
            SetBack::BetweenGrants => known && state.holds.is_empty() && state.holder.is_none(),
            SetBack::WhileHeld => state.holder.is_some_and(|(owner, _)| state.used[usize::from(owner)].1 > 0),
            SetBack::AtAnyTime => true,
        };
        if state.may_set_back && may {
            steps.push(Step::SetBack);
        }
        if state.holder.is_none() && state.owners < self.0.grants {
            steps.push(Step::Grant);
        }
        for hold in &state.holds {
            let owner = hold.owner;
            if hold.made.is_none() && hold.asked < self.0.asks {
                steps.push(Step::Ask(owner));
            }
            if hold.until < state.now + self.0.ttl || hold.confirmed < state.now {
                steps.push(Step::Renew(owner));
            }
            if hold.turn < self.0.turns {
                steps.push(Step::Turn(owner));
            }
            steps.push(Step::Release(owner));
            if self.0.deaths {
                steps.push(Step::Die(owner));
            }
        }
        for &message in &state.net {
            let busy = state.behind == 0 && state.last >= state.now;
            if !(busy && matches!(message, Message::Fence { .. })) {
                steps.push(Step::Deliver(message));
            }
            if !matches!(message, Message::Release { .. }) || self.0.deaths {
                steps.push(Step::Drop(message));
            }
        }
    }

    fn after(&self, state: &State, step: Step) -> State {
        let mut next = state.clone();
        match step {
            Step::Tick => next.tick(),
            Step::LoseData => {
                (next.may_lose, next.holder, next.last, next.of) = (false, None, 0, None);
                // A restart takes longer than a microsecond.
                next.tick();
            }
            Step::LoseLock => (next.may_lose, next.holder) = (false, None),
            Step::SetBack => (next.may_set_back, next.behind) = (false, self.0.back),
            Step::Grant => {
                let (owner, until) = (next.owners, next.now + self.0.ttl);
                next.holder = Some((owner, until));
                let (made, earlier) = (None, None);
                next.holds.push(Hold {
                    owner,
                    turn: 0,
                    until,
                    confirmed: next.now,
                    asked: 0,
                    made,
                    earlier,
                    ahead: false,
                    own: 0,
                });
                next.owners += 1;
                next.used.push((0, 0));
            }
            Step::Ask(owner) => self.ask(&mut next, owner),
            Step::Renew(owner) => self.renew(&mut next, owner),
            Step::Turn(owner) => self.turn(&mut next, owner),
            Step::Release(owner) | Step::Die(owner) => {
                let hold = next.holds.iter().position(|hold| hold.owner == owner);
                let hold = next.holds.remove(hold.expect("BUG: it was there a step ago"));
                if matches!(step, Step::Release(_)) {
                    next.send(Message::Release { owner, own: hold.own });
                }
            }
            Step::Deliver(message) | Step::Drop(message) => {
                next.net.retain(|other| *other != message);
                match message {
                    _ if matches!(step, Step::Drop(_)) => {}
                    Message::Fence { owner, turn, own } => self.fence(&mut next, owner, turn, own),
                    Message::Number { owner, turn, number, ahead } => {
                        self.number(&mut next, (owner, turn), number, ahead);
                    }
                    Message::Release { owner, own } => self.release(&mut next, owner, own),
                }
            }
        }
        let (holder, holds) = (next.holder, &next.holds);
        next.net.retain(|message| match *message {
            Message::Fence { owner, .. } | Message::Release { owner, .. } => {
                holder.is_some_and(|(holder, _)| holder == owner)
            }
            Message::Number { owner, .. } => holds.iter().any(|hold| hold.owner == owner),
        });
        next
    }

    fn broken(&mut self, state: &State) -> Option<&'static str> {
        state.wrong.then_some(GROW)
    }
}
