//! What happens in the loop, as values: why a wait is over, and what it brought.

use crate::backend::{Ask, Held};
use crate::guard::Hold;
use crate::local_queue::Handoff;
use crate::pending::Granted;
use crate::strategy::Decision;

/// Why a wait is over.
pub(super) enum Wake {
    /// The store must be asked.
    Ask(Ask),
    /// The store has notified the claim of its grant; this many wait behind it.
    Notified(usize),
    /// A holder of this process hands off its grant.
    Handoff(Handoff),
    /// The pause is over, or something has changed: the strategy is asked again.
    Again,
}

/// The store's answer to a claim.
pub(super) enum Answer {
    Granted(Granted),
    Held(Held),
}

/// What came of a question to the store.
pub(super) enum Asked {
    Granted(Granted),
    Held,
    /// The loop goes on with this: the store failed.
    Go(Wake),
}

/// A grant that a waiter may turn into a guard.
pub(super) enum Won {
    /// The store has granted the claim.
    Store(Granted),
    /// The store has served the claim's queue entry, for a short lease.
    Queued(Granted),
    /// A holder of this process has released.
    Handoff(Handoff),
}

/// What came of a hand-off that is taken without asking the store.
pub(super) enum Taken {
    Hold(Hold),
    /// It lacks something that only the store can give.
    Lacks(Handoff),
}

/// The strategy's answer, and what came of it.
pub(super) enum Next {
    /// The strategy waited, until this happened.
    Go(Wake),
    /// The strategy has had enough.
    Enough(Decision),
}
