//! Releases the grant of the last guard at the store, or hands it off to the next waiter in this process.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use tokio::runtime::Handle;

use crate::backend::Released;
use crate::clock::Moment;
use crate::error::{LockError, LossReason, Result};
use crate::lease::Lease;
use crate::local_queue::{HandedOff, QUESTION_TIMEOUT};
use crate::observe::ReleaseError;
use crate::pending::{Counted, ReleaseUnderWay};

/// A lease that has no guards any more, and whose release the store has not answered yet.
///
/// This value is made before the request is sent. If the future is dropped at an await point, the background continues
/// the release. A release that was sent may free the key even if no answer arrives. So from then on the grant is not
/// handed off.
pub(super) struct Releasing {
    lease: Arc<Lease>,
    /// Whether the release was sent to the store.
    asked: bool,
    answered: bool,
    /// Set when the release is sent. While this value exists, the next acquisition of the keys waits for the answer.
    under_way: Option<ReleaseUnderWay>,
    /// Counts the release as pending. Only `begin` sets this, because `begin` stops counting the lease as held before
    /// the release is answered.
    counted: Option<Counted>,
}

impl Releasing {
    /// Returns the pending release of a lease that its last guard has left, and records the end of the hold. If this
    /// value is dropped, the grant is handed off, or else released in the background.
    pub(super) fn new(lease: Arc<Lease>) -> Self {
        Self::reported(lease, false)
    }

    /// Returns the pending release of a grant that must not be handed off, even if waiters exist in this process. If
    /// this value is dropped, the grant is released in the background.
    pub(super) fn to_store(lease: Arc<Lease>) -> Self {
        Self::reported(lease, true)
    }

    fn reported(lease: Arc<Lease>, asked: bool) -> Self {
        let releasing = Self { lease, asked, answered: false, under_way: None, counted: None };
        // This value is made first. If the log subscriber panics below, dropping the value still releases the grant.
        releasing.lease.record_released();
        releasing
    }

    /// Returns the error for a lock that was lost for `reason`.
    pub(super) fn lost_error(&self, reason: LossReason) -> LockError {
        self.lease.lost_error(reason)
    }

    /// Hands the grant off to the next waiter in this process, or lets the grant linger. Returns whether the grant
    /// stays in this process.
    fn handed_off(&self) -> bool {
        let (lease, engine) = (&self.lease, &self.lease.engine);
        let (linger, key, owner) = (lease.options.linger, &lease.claim().key, lease.claim().owner);
        if !lease.options.kind.hands_off() {
            return false;
        }
        let now = || lease.now();
        let handoff = |ttl, now| lease.as_handoff(ttl, now);
        let handed_off = engine.local_queue.hand_off(key, owner, linger, now, handoff, || self.may_ask());
        if handed_off == HandedOff::Asks {
            self.ask_for_others(lease.now());
        }
        let stays = handed_off != HandedOff::No;
        // A shutdown may have begun in the meantime. It may have ended all lingering grants before this grant began to
        // linger, so end them again.
        if stays && linger.is_some() && engine.check_open().is_err() {
            engine.local_queue.end_all_lingering();
        }
        stays
    }

    /// Returns whether the background can send a request to the store.
    #[cold]
    fn may_ask(&self) -> bool {
        self.lease.engine.cleanup.background.runtime().is_some()
    }

    /// Sends a request in the background, to find out whether other processes wait for the grant that was just handed
    /// off. The local queue receives the answer.
    #[cold]
    fn ask_for_others(&self, now: Moment) {
        let engine = Arc::clone(&self.lease.engine);
        let claim = self.lease.claim().clone();
        let Some(background) = engine.cleanup.background.runtime() else { return };
        background.spawn(async move {
            let answer = tokio::time::timeout(QUESTION_TIMEOUT, engine.store.others_wait(&claim)).await;
            let (others_wait, answered) = (!matches!(answer, Ok(Ok(false))), engine.clock.now());
            let took = answered.since(now).min(QUESTION_TIMEOUT);
            engine.local_queue.answered(&claim.key, others_wait, claim.owner, took, answered);
        });
    }

    /// Releases the grant, and waits for the answer.
    pub(super) async fn release(mut self) -> Result<Released> {
        if self.handed_off() {
            self.answered = true;
            return Ok(Released::Released);
        }
        // As soon as the request is sent, the store may free the key, and grant it to another owner.
        self.asked = true;
        let (lease, engine) = (&self.lease, &self.lease.engine);
        self.under_way = Some(lease.engine.cleanup.under_way.add(lease.claim(), lease.now()));
        let answer = engine.inside(engine.release(lease.claim(), lease.keep_for(lease.now()))).await;
        self.settle(answer)
    }

    /// Releases the grant without waiting for the answer. A task of this runtime completes the release. If the runtime
    /// ends, the background completes it.
    pub(super) fn begin(mut self) {
        // Outside of a runtime, this value is dropped, and the background releases the grant.
        let Ok(runtime) = Handle::try_current() else { return };
        let engine = Arc::clone(&self.lease.engine);
        // From here on a shutdown waits for the release instead of the guard.
        self.counted = Some(engine.cleanup.count());
        engine.lease_ended();
        let mut releasing = Box::pin(self.release());
        // The future is polled once here, so that the request is sent when this method returns. The next request that
        // queues in the order of arrival does not wait for the release, so it must not be sent earlier. And a caller
        // that blocks its thread next would delay a task. If the future is pending, a new task continues it.
        if releasing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            drop(runtime.spawn(releasing));
        }
    }

    fn settle(&mut self, answer: Result<Released>) -> Result<Released> {
        match answer {
            Ok(released) => {
                (self.answered, self.under_way) = (true, None);
                if released != Released::Released {
                    self.lease.record_release_failed(ReleaseError::NotOurs, None);
                }
                Ok(released)
            }
            Err(error) => {
                self.lease.record_release_failed(ReleaseError::Unanswered, Some(&error));
                Err(error.with_key(&self.lease.claim().key))
            }
        }
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        let lease = &self.lease;
        let engine = &lease.engine;
        // After its release was sent, the grant is never handed off. The store may have granted the key to another
        // process, and then two holders would exist.
        if !self.answered && (self.asked || !self.handed_off()) {
            lease.release_in_background(self.under_way.take());
        }
        // The release counts as pending before the lease stops counting as held. A shutdown waits until no lock is
        // held, and then until no release is pending. So there must be no moment at which neither is counted.
        if self.counted.is_none() {
            engine.lease_ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::Poll;
    use std::time::Duration;

    use super::*;
    use crate::guard::LockGuard;
    use crate::manager::LockManager;

    /// Returns the lease of `guard`, after its only guard has left it.
    fn left(guard: LockGuard) -> Arc<Lease> {
        let (_hub, hold) = guard.into_parts();
        let lease = hold.take().expect("it is held");
        assert!(lease.leave(), "nobody shares it");
        lease
    }

    struct Panics;

    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a broken executor");
        }
    }

    fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn poll_with_panics<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
        future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Panics))))
    }

    const WAYS: [fn(LockGuard); 2] = [drop, |guard| assert!(poll(pin!(guard.release())).is_ready())];

    #[tokio::test(start_paused = true)]
    async fn a_grant_is_given_once_where_a_waker_panics() {
        for way in WAYS {
            let locks = LockManager::in_memory();
            let guard = locks.lock("k").acquire().await.expect("it is free");
            let request = || locks.lock("k").strategy(crate::strategy::wait()).acquire();
            let (mut next, mut last) = (pin!(request()), pin!(request()));
            assert!(poll_with_panics(next.as_mut()).is_pending() && poll(last.as_mut()).is_pending());
            way(guard);
            assert!(poll(last.as_mut()).is_pending(), "it is not its turn");
            let Poll::Ready(Ok(next)) = poll(next) else { panic!("its turn") };
            assert_eq!(locks.held(), 1);
            way(next);
            let Poll::Ready(Ok(last)) = poll(last) else { panic!("its turn") };
            way(last);
            assert_eq!(locks.held(), 0);
            assert!(!locks.is_locked("k").await.expect("memory answers"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_min_hold_does_not_move_with_the_release() {
        const PART: Duration = Duration::from_millis(500);
        let ways: [fn(Releasing); 2] = [
            |releasing| {
                let _ = pin!(releasing.release()).poll(&mut Context::from_waker(Waker::noop()));
            },
            Releasing::begin,
        ];
        for (at, way) in ways.into_iter().enumerate() {
            let locks = LockManager::in_memory();
            let request = locks.lock("k").min_hold(4 * PART);
            let releasing = Releasing::new(left(request.acquire().await.expect("it is free")));
            tokio::time::advance(2 * PART).await;
            way(releasing);
            let kept = locks.inspect("k").await.expect("memory answers").expect("it is kept");
            assert_eq!(kept.holders[0].remaining, Some(2 * PART), "way {at}");
        }
    }
}
