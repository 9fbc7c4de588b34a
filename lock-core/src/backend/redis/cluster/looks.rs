//! One look at the Cluster at a time, for all who need one.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use super::super::error::Failure;
use crate::clock::{Clock, Moment};

/// Between two looks while a node is missed; a failover takes a second or more.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// How long somebody else's look is waited for. It is over by then, unless its runtime is not driven any more.
const PATIENCE: Duration = Duration::from_millis(400);

/// Who looks, and who has looked.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// A `std` lock, never held across an await. One that is held while somebody looks would be held for ever where his
    /// runtime is not driven any more, and nobody in the process would find a node again.
    turns: Mutex<Turns>,
    over: Notify,
}

#[derive(Debug, Default)]
struct Turns {
    /// When the look that is under way began.
    begun: Option<Moment>,
    /// When the last one that is over began, and what came of it.
    last: Option<(Moment, Result<(), Failure>)>,
}

/// What is to be done for somebody who wants a look.
enum Turn {
    Over(Result<(), Failure>),
    /// Somebody else looks, for so long at most.
    Theirs(Duration),
    /// It begins now.
    Ours(Moment),
}

impl Looks {
    /// Looks, unless somebody has just done so: however many miss a node, they look together.
    pub(super) async fn recent(
        &self,
        look: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let now = Clock::Suspend.now();
        match &self.turns().last {
            Some((begun, result)) if now.since(*begun) < PAUSE => return result.clone(),
            _ => {}
        }
        self.fresh(look).await
    }

    /// Looks, unless somebody has begun to do so since this call.
    pub(super) async fn fresh(&self, look: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let called = Clock::Suspend.now();
        let begun = loop {
            // Made before the look at the turns, so that nothing is missed in between.
            let over = self.over.notified();
            let left = match self.turn(called) {
                Turn::Over(result) => return result,
                Turn::Ours(begun) => break begun,
                Turn::Theirs(left) => left,
            };
            let _ = timeout(left, over).await;
        };
        let mut ours = Ours { looks: self, begun, result: None };
        let result = look.await;
        ours.result = Some(result.clone());
        result
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, called: Moment) -> Turn {
        let mut turns = self.turns();
        match &turns.last {
            Some((begun, result)) if begun.since(called) > Duration::ZERO => {
                return Turn::Over(result.clone());
            }
            _ => {}
        }
        let now = Clock::Suspend.now();
        match turns.begun.map(|begun| PATIENCE.saturating_sub(now.since(begun))) {
            Some(left) if !left.is_zero() => Turn::Theirs(left),
            _ => {
                turns.begun = Some(now);
                Turn::Ours(now)
            }
        }
    }
}

/// A look that is under way; one that is dropped half-way lets the next one begin.
struct Ours<'a> {
    looks: &'a Looks,
    begun: Moment,
    result: Option<Result<(), Failure>>,
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        let mut turns = self.looks.turns();
        if turns.begun == Some(self.begun) {
            turns.begun = None;
        }
        let newer = turns.last.as_ref().is_none_or(|(last, _)| self.begun.since(*last) > Duration::ZERO);
        if let Some(result) = self.result.take().filter(|_| newer) {
            turns.last = Some((self.begun, result));
        }
        drop(turns);
        self.looks.over.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::yield_now;

    use super::*;
    use crate::error::LockErrorKind;

    #[tokio::test]
    async fn who_comes_while_somebody_looks_shares_the_next_look() {
        let (looks, count) = (Looks::default(), AtomicU32::new(0));
        let look = || async {
            count.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
            Err(Failure::new(LockErrorKind::Unavailable, "nobody"))
        };
        let (one, others) = tokio::join!(looks.fresh(look()), async {
            tokio::join!(looks.fresh(look()), looks.fresh(look()), looks.fresh(look()))
        });
        assert!(one.is_err() && others.0.is_err() && others.1.is_err() && others.2.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert!(looks.recent(look()).await.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 2, "it was just done");
        assert!(looks.fresh(look()).await.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn one_that_is_never_over_is_waited_for_once() {
        let looks = Looks::default();
        let mut frozen = pin!(looks.fresh(std::future::pending()));
        assert!(timeout(Duration::ZERO, frozen.as_mut()).await.is_err());
        let start = Clock::Suspend.now();
        for _ in 0..5 {
            looks.fresh(std::future::ready(Ok(()))).await.expect("it looks");
        }
        let taken = Clock::Suspend.now().since(start);
        assert!(taken >= PATIENCE / 2 && taken < 3 * PATIENCE, "{taken:?}");
    }

    #[tokio::test]
    async fn one_that_is_dropped_lets_the_next_begin() {
        let looks = Looks::default();
        let dropped = timeout(Duration::from_millis(1), looks.fresh(std::future::pending())).await;
        assert!(dropped.is_err());
        let start = Clock::Suspend.now();
        looks.fresh(std::future::ready(Ok(()))).await.expect("it looks");
        assert!(Clock::Suspend.now().since(start) < PATIENCE);
    }
}
