//! Decides on the next action of an acquisition, without I/O, a clock or a lock.
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

/// The facts that stay constant during an acquisition: the kind of lock, and the abilities of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// The order in which the store serves this claim.
    pub(super) queue: Queue,
    /// Whether the claim may wait in the queue of this process.
    pub(super) hands_off: bool,
    /// Whether the claim is for several keys.
    pub(super) several: bool,
    /// The maximum number of claims that may be queued before this one.
    pub(super) room: Option<usize>,
    /// Whether the store has a queue.
    pub(super) in_order: bool,
    /// Whether entries in the store's queue are kept alive by heartbeats.
    pub(super) heartbeats: bool,
}

/// The place in which an acquisition waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In no queue. The next request is due at the end of the strategy's pause.
    Nowhere,
    /// In the local queue, but not at its head. The waiter sends no requests: the head sends them, or a holder hands
    /// off.
    BehindHead,
    /// At the head of the local queue, without an entry in the store's queue.
    AtHead,
    /// At the head of the local queue, with an entry in the store's queue. The store notifies the head.
    HeadQueued,
    /// In the store's queue only.
    Queued,
}

impl Place {
    /// Returns whether the claim has an entry in the store's queue. This waiter then keeps the entry alive.
    pub(super) fn is_queued(self) -> bool {
        matches!(self, Self::HeadQueued | Self::Queued)
    }
}

/// Whether a request was sent to the store, and whether a pause has followed the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Never,
    /// No pause has followed the last request.
    Fresh,
    /// A pause has followed the last request.
    Stale,
}

/// The state of an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) place: Place,
    pub(super) asked: Asked,
    /// Whether the last request was of a kind that does not join the store's queue.
    pub(super) only_tried: bool,
    /// Whether the last request failed, so that the next one has a due time.
    pub(super) failing: bool,
    /// Whether the strategy decided to wait before the first request.
    pub(super) admitted: bool,
    /// The strategy's decision to end the wait. It is set while the final attempt is under way.
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
    /// The acquisition begins. `busy` says whether this process holds the key or waits for it.
    Begins { busy: bool },
    /// The strategy was consulted before the first request. `waits` says whether the strategy would wait, and
    /// `was_held` whether the key was held a moment ago.
    Consulted { waits: bool, busy: bool, was_held: bool },
    /// The store answers that the key is held.
    Refused,
    /// The store failed, and the strategy continues to wait.
    Failed,
    /// A grant or a notification is unusable.
    Worthless,
    /// The strategy waits for this long.
    Pauses(Duration),
    /// The strategy gives up.
    Enough(Decision),
    /// The claim has joined the local queue. `asks` says whether the claim must send a request at once.
    Joined { asks: bool, pause: Duration },
    /// A claim for several keys has a single grant of each key.
    Gathered,
    /// Another request makes sense: the store or another waiter has notified this one, or a request is due.
    MustAsk,
    /// The pause of the strategy is over.
    PauseOver,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Begin again.
    Begin,
    /// Consult the strategy before the first request.
    Consult,
    /// Send a request to the store.
    Ask(Ask),
    /// Consult the strategy about a held key.
    Decide,
    /// Join the local queue, and then wait.
    Join(Duration),
    /// Acquire the keys one after another.
    Gather(Duration),
    /// Wait for at most this long.
    Wait(Duration),
    /// Use the grant if its notification has arrived by now. Otherwise give up.
    Finish(Decision),
    /// Give up.
    End(Decision),
}

/// Returns the request that a waiting claim sends.
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
        // This was the final attempt.
        (Event::Refused | Event::Failed | Event::Worthless, Some(decision)) => Action::End(decision),
        (Event::Refused | Event::Worthless | Event::PauseOver, _) => Action::Decide,
        // After a failed request, a claim in a queue keeps its place. A claim in no queue begins anew.
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

/// Returns the first action. Usually this is the cheapest request that can result in a grant. The strategy is consulted
/// first if this may save a request, or if the request would queue.
fn begin(rules: &Rules, busy: bool) -> Action {
    match rules.queue {
        _ if rules.several => Action::Ask(Ask::Try),
        Queue::Barging if !rules.heartbeats && !busy => Action::Ask(Ask::Try),
        Queue::Fifo | Queue::Barging => Action::Consult,
    }
}

/// Returns the first action after the strategy was consulted. `held` says whether the key is probably held.
fn consulted(rules: &Rules, waits: bool, held: bool) -> Action {
    match rules.queue {
        _ if !waits => Action::Ask(Ask::Try),
        Queue::Fifo => Action::Ask(request(rules)),
        // The claim waits without a request, because its request could overtake other waiters.
        Queue::Barging if held => Action::Decide,
        Queue::Barging => Action::Ask(Ask::Probe),
    }
}

/// Returns the next action of a claim after its strategy has decided to wait.
fn wait(rules: &Rules, state: State, pause: Duration) -> Action {
    match state.place {
        _ if rules.several && rules.in_order => Action::Gather(pause),
        // A claim joins the local queue only after its strategy has decided to wait. A request that does not wait must
        // not receive a hand-off in place of a waiter.
        Place::Nowhere | Place::Queued if rules.hands_off => Action::Join(pause),
        // The first request did not queue, because the strategy would not wait. Now that the holder is known, the
        // strategy waits, so the claim queues.
        Place::Nowhere
            if rules.in_order && rules.queue == Queue::Fifo && state.only_tried && !state.failing =>
        {
            Action::Ask(request(rules))
        }
        _ => Action::Wait(pause),
    }
}

/// Returns the final request before the wait ends, if one is due. If a pause has followed the last request, the key may
/// be free by now. If the store has heartbeats, no such request is due, because the store would have notified the
/// claim.
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
