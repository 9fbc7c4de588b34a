//! The next action of an acquisition: the decision alone, without I/O, a clock or a lock.
//!
//! ```text
//!  Begins -> Consult -> Consulted -> Ask -> Refused -> Decide -> Pauses -> Join -> Joined -> Wait -> PauseOver
//!                                     ^                  ^         |                          |          |
//!                                     |                  |         +-- Gather -> Gathered     |          v
//!                                     +---- MustAsk, ----+------------------------------------+       Decide
//!                                           Gathered     Enough -> Ask, Finish -> Refused, Worthless -> End
//! ```
//!
//! A grant ends the loop and is not an event here; see `run.rs`.

use std::time::Duration;

use crate::backend::{Ask, Queue};
use crate::strategy::Decision;

/// The constant facts of an acquisition: the kind of lock, and the abilities of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The order in which the store serves this claim.
    pub(super) queue: Queue,
    /// Whether the claim may wait in the queue of this process.
    pub(super) hands_off: bool,
    /// Whether the claim is for several keys.
    pub(super) several: bool,
    /// The most claims that may be queued before this one.
    pub(super) room: Option<usize>,
    /// Whether the store has a queue.
    pub(super) in_order: bool,
    /// Whether entries in the queue of the store live on heartbeats.
    pub(super) heartbeats: bool,
}

/// The place in which an acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No place: the next request is due at the end of the strategy's pause.
    Nowhere,
    /// In the local queue, after its head. The head sends the requests for all of them, or a holder hands off.
    BehindHead,
    /// At the head of the local queue, without an entry in the store's queue.
    AtHead,
    /// At the head of the local queue, with an entry in the store's queue, which notifies it.
    HeadQueued,
    /// In the store's queue alone.
    Queued,
}

impl Place {
    /// Returns whether the claim has an entry in the store's queue that this waiter keeps alive.
    pub(super) fn is_queued(self) -> bool {
        matches!(self, Self::HeadQueued | Self::Queued)
    }
}

/// The last request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Never,
    /// There was no pause since the last request.
    Fresh,
    /// The last request was sent before the last pause.
    Stale,
}

/// The state of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) place: Place,
    pub(super) asked: Asked,
    /// Whether the last request to the store did not ask for a place in its queue.
    pub(super) only_tried: bool,
    /// Whether the store failed, and the next request has a due time.
    pub(super) failing: bool,
    /// Whether the strategy has decided to wait before the store was asked.
    pub(super) admitted: bool,
    /// Why the wait is over, while the last try is under way.
    pub(super) ending: Option<Decision>,
}

impl State {
    pub(super) const BEGIN: Self = Self {
        place: Place::Nowhere,
        asked: Asked::Never,
        only_tried: false,
        failing: false,
        admitted: false,
        ending: None,
    };
}

/// An event of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The acquisition begins. `busy`: the key is held or waited for in this process.
    Begins { busy: bool },
    /// The strategy has decided before the first request. `waits`: it would wait. `was_held`: the key was held a moment
    /// ago.
    Consulted { waits: bool, busy: bool, was_held: bool },
    /// The store answers that the key is held.
    Refused,
    /// The store failed, and the strategy still waits.
    Failed,
    /// A grant or a notification is of no use.
    Worthless,
    /// The strategy waits for this long.
    Pauses(Duration),
    /// The strategy gives up.
    Enough(Decision),
    /// The claim has joined the local queue. `asks`: it must ask the store at once.
    Joined { asks: bool, pause: Duration },
    /// The claim of several keys holds each of them by a single grant.
    Gathered,
    /// Another try makes sense: the store or another waiter has notified this one, or it is due.
    MustAsk,
    /// The pause of the strategy is over.
    PauseOver,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Begin again.
    Begin,
    /// Ask the strategy whether it would wait, before the first request.
    Consult,
    /// Send a request to the store.
    Ask(Ask),
    /// Ask the strategy what to do about a key that is held.
    Decide,
    /// Join the local queue, and then wait.
    Join(Duration),
    /// Acquire the keys one after another.
    Gather(Duration),
    /// Wait, at most for this long.
    Wait(Duration),
    /// Take the notification of a grant that has arrived by now, or give up.
    Finish(Decision),
    /// Give up.
    End(Decision),
}

/// Returns the request of a claim that waits.
fn request(rules: &Rules) -> Ask {
    match rules.queue {
        _ if !rules.in_order || rules.several => Ask::Try,
        Queue::Fifo => Ask::Enqueue { room: rules.room },
        Queue::Barging => Ask::Enqueue { room: None },
    }
}

/// Returns the action that follows from `event`.
pub(super) fn next(rules: &Rules, mut state: State, event: Event) -> (State, Action) {
    let action = match (event, state.ending) {
        // This was the last try.
        (Event::Refused | Event::Failed | Event::Worthless, Some(decision)) => Action::End(decision),
        (Event::Refused | Event::Worthless | Event::PauseOver, _) => Action::Decide,
        // A claim that waits keeps its place.
        (Event::Failed, None) if state.place != Place::Nowhere => Action::Decide,
        (Event::Failed, None) => Action::Begin,
        (Event::Begins { busy }, _) => begin(rules, busy),
        (Event::Consulted { waits, busy, was_held }, _) => {
            let action = consulted(rules, waits, busy || rules.in_order && was_held);
            state.admitted |= action == Action::Decide;
            action
        }
        (Event::Pauses(pause), _) => wait(rules, state, pause),
        (Event::Joined { asks: true, .. }, _) => Action::Ask(Ask::Enqueue { room: None }),
        (Event::Joined { asks: false, pause }, _) => Action::Wait(pause),
        (Event::Gathered, _) => Action::Ask(Ask::Try),
        (Event::MustAsk, _) => Action::Ask(request(rules)),
        (Event::Enough(decision), _) => {
            state.ending = Some(decision);
            last_try(rules, state.asked).map_or(Action::Finish(decision), Action::Ask)
        }
    };
    match action {
        Action::Ask(ask) => (state.asked, state.only_tried) = (Asked::Fresh, !ask.enqueues()),
        Action::Wait(_) if state.asked == Asked::Fresh => state.asked = Asked::Stale,
        _ => {}
    }
    (state, action)
}

/// Returns how to begin: with the cheapest request that can end in a grant. The strategy is asked first if that may
/// save a request, or if the request takes a place.
fn begin(rules: &Rules, busy: bool) -> Action {
    match rules.queue {
        _ if rules.several => Action::Ask(Ask::Try),
        Queue::Barging if !rules.heartbeats && !busy => Action::Ask(Ask::Try),
        Queue::Fifo | Queue::Barging => Action::Consult,
    }
}

/// Returns the first request after the strategy has decided whether to wait. `held`: the key is probably held.
fn consulted(rules: &Rules, waits: bool, held: bool) -> Action {
    match rules.queue {
        _ if !waits => Action::Ask(Ask::Try),
        Queue::Fifo => Action::Ask(request(rules)),
        // No claim of this process may wait, so only a request shows whether the key is still held.
        Queue::Barging if rules.room == Some(0) => Action::Ask(Ask::Probe),
        // The claim waits without a request, because a request could overtake other waiters.
        Queue::Barging if held => Action::Decide,
        Queue::Barging => Action::Ask(Ask::Probe),
    }
}

/// Returns the next action of a claim whose strategy waits.
fn wait(rules: &Rules, state: State, pause: Duration) -> Action {
    match state.place {
        _ if rules.several && rules.in_order => Action::Gather(pause),
        // The claim joins only now: a request that does not wait never joins, and so takes no hand-off from one that
        // waits.
        Place::Nowhere | Place::Queued if rules.hands_off => Action::Join(pause),
        // The strategy did not want to wait before the request, and waits now that the holder is known.
        Place::Nowhere
            if rules.in_order && rules.queue == Queue::Fifo && state.only_tried && !state.failing =>
        {
            Action::Ask(request(rules))
        }
        _ => Action::Wait(pause),
    }
}

/// Returns the last request before the wait ends. If the last one was sent before a pause, the key may be free by now.
/// A claim that sends heartbeats would have been notified.
fn last_try(rules: &Rules, asked: Asked) -> Option<Ask> {
    let is_due = match asked {
        Asked::Never => true,
        Asked::Stale => !rules.heartbeats,
        Asked::Fresh => false,
    };
    is_due.then_some(Ask::Try)
}

#[cfg(test)]
mod tests;
