//! Whether somebody may have been told something that nobody hears.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// What a waiter was told and has not heard for so long is for the next: its future is not polled.
pub(crate) const UNHEARD: Duration = Duration::from_millis(250);

/// Wakes the renewers when there is something to look after. While they do, a further word costs no more than a load.
#[derive(Debug, Default)]
pub(super) struct Open {
    told: AtomicBool,
    bell: Notify,
}

impl Open {
    /// Somebody was told something. To be called after it was told.
    pub(super) fn tell(&self) {
        if !self.told.load(Ordering::Relaxed) && !self.told.swap(true, Ordering::SeqCst) {
            self.bell.notify_waiters();
        }
    }

    /// A look begins; who is told something from now on says so again.
    pub(super) fn begin(&self) {
        self.told.store(false, Ordering::SeqCst);
    }

    /// The look found somebody who has a while yet.
    pub(super) fn stays(&self) {
        self.told.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }

    pub(super) fn rung(&self) -> Notified<'_> {
        self.bell.notified()
    }
}
