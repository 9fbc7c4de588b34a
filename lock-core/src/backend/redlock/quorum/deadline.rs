//! The deadline of a call to one node.
//!
//! A caller that polls its calls has one timer for all calls. This timer ends no later than the deadlines of the calls.
//! When the caller stops, its calls are detached. Only a detached call needs its own timer, and few calls last that
//! long.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::clock::{Clock, Moment};

/// The state that shows whether calls are detached from their caller. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(super) struct Detached(Arc<AtomicU8>);

const ALONE: u8 = 1;
const IN_VAIN: u8 = 2;

impl Detached {
    /// Creates the state of a call that is detached from the beginning.
    pub(super) fn from_the_beginning() -> Self {
        Self(Arc::new(AtomicU8::new(ALONE)))
    }

    /// Marks the calls as detached: the caller has its verdict, or was dropped.
    pub(super) fn set(&self) {
        // When a caller has timed out, its fan-out is dropped afterwards. `fetch_max` makes sure that this drop does
        // not overwrite the time-out.
        self.0.fetch_max(ALONE, Ordering::Release);
    }

    /// Marks the calls as detached after their caller has timed out.
    pub(super) fn in_vain(&self) {
        self.0.fetch_max(IN_VAIN, Ordering::Release);
    }
}

/// The deadline of one call. It counts from the time at which the caller sent its request.
#[derive(Debug)]
pub(super) struct Deadline {
    pub(super) alone: Detached,
    pub(super) clock: Clock,
    pub(super) from: Moment,
    pub(super) limit: Duration,
    /// Whether the call ends as soon as its caller has timed out.
    pub(super) with_caller: bool,
}

impl Deadline {
    /// Returns the outcome of `call`. Returns `None` if the call is detached and its time has passed, or if its caller
    /// has timed out and `with_caller` is set.
    ///
    /// # Cancel safety
    /// This is as cancel safe as `call`, which is only borrowed: `call` may be polled again afterwards.
    pub(super) async fn with<F: Future>(&self, mut call: Pin<&mut F>) -> Option<F::Output> {
        let mut timer: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|cx| {
            // The call is polled before the clock is read: an answer that has arrived counts, even if it is noticed
            // late.
            if let Poll::Ready(outcome) = call.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            // The state is read on every poll: the task that takes over a detached call polls it at once, and this poll
            // starts the timer.
            let alone = self.alone.0.load(Ordering::Acquire);
            if alone == IN_VAIN && self.with_caller {
                return Poll::Ready(None);
            }
            if timer.is_none() && alone >= ALONE {
                // The time counts from the request, not from the detachment: the call has been waiting since the
                // request.
                let gone = self.clock.now().since(self.from);
                timer = Some(Box::pin(sleep(self.limit.saturating_sub(gone))));
            }
            match &mut timer {
                Some(timer) => timer.as_mut().poll(cx).map(|()| None),
                None => Poll::Pending,
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_counts_from_the_question_and_ends_only_for_one_who_is_alone() {
        let (alone, clock, limit) = (Detached::default(), Clock::Tokio, Duration::from_secs(1));
        let patience = Deadline { alone: alone.clone(), clock, from: clock.now(), limit, with_caller: true };
        let mut never = pin!(pending::<()>());
        let mut waiting = pin!(patience.with(never.as_mut()));
        assert!(tokio::time::timeout(limit * 9 / 10, waiting.as_mut()).await.is_err());
        alone.set();
        assert!(tokio::time::timeout(limit * 2, waiting).await.is_ok_and(|outcome| outcome.is_none()));
        assert_eq!(clock.now().since(patience.from), limit);

        let with_caller =
            Deadline { alone: Detached::default(), clock, from: clock.now(), limit, with_caller: true };
        let other = pin!(pending::<()>());
        let waiting = with_caller.with(other);
        assert!(tokio::time::timeout(limit * 2, waiting).await.is_err(), "its caller has the timer");
        with_caller.alone.in_vain();
        let never = pin!(pending::<()>());
        assert!(with_caller.with(never).await.is_none(), "it waited long enough");
        let ready = pin!(async { 7 });
        assert_eq!(patience.with(ready).await, Some(7), "what is there counts, however late");
    }
}
