//! Defines [`Store`], with which the library calls the backend.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    Ask, Attempt, Claim, DynBackend, FencingToken, Heartbeat, LatchState, LatchStep, Released, Renew, Renewal,
};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;
use crate::observe::{Observer, Op};

/// The backend of one manager. The methods measure the calls that locks and latches make; all other calls use `backend`.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) backend: Arc<dyn DynBackend>,
    observer: Arc<Observer>,
}

// Most of these functions are not async, but return the backend's future. An async function would wrap each call in
// another state machine.
impl Store {
    pub(crate) fn new(backend: Arc<dyn DynBackend>, observer: Arc<Observer>) -> Self {
        Self { backend, observer }
    }

    /// Creates a store without metrics, for a test.
    #[cfg(test)]
    pub(crate) fn unobserved(backend: impl crate::backend::Backend) -> Self {
        let clock = backend.capability().placement.clock();
        let observer = Observer::new(crate::observe::Settings::default(), "test", clock);
        Self::new(Arc::new(backend), Arc::new(observer))
    }

    pub(crate) fn observer(&self) -> &Observer {
        &self.observer
    }

    fn timed<'a, T: 'a>(
        &'a self,
        op: Op,
        call: impl Future<Output = T> + Send + 'a,
    ) -> impl Future<Output = T> + Send + 'a {
        self.observer.meters.timed(op, call)
    }

    pub(crate) fn acquire<'a>(
        &'a self,
        claim: &'a Claim,
        ask: Ask,
    ) -> impl Future<Output = Result<Attempt>> + 'a {
        self.timed(Op::from_ask(ask), self.backend.acquire_dyn(claim, ask))
    }

    pub(crate) fn heartbeat<'a>(&'a self, claim: &'a Claim) -> impl Future<Output = Result<Heartbeat>> + 'a {
        self.timed(Op::Heartbeat, self.backend.heartbeat_dyn(claim))
    }

    pub(crate) fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> impl Future<Output = Vec<Renewal>> + 'a {
        self.timed(Op::Renew, self.backend.renew_dyn(batch))
    }

    /// Renews one claim.
    pub(crate) async fn renew_one(&self, claim: &Claim, ttl: Duration) -> Renewal {
        let answer = self.renew(&[Renew { claim, ttl }]).await.into_iter().next();
        let nothing =
            || LockError::new(LockErrorKind::Unavailable, "the store returned no answer to a renewal");
        answer.unwrap_or_else(|| Renewal::Unknown(nothing()))
    }

    pub(crate) fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep_for: Option<Duration>,
    ) -> impl Future<Output = Result<Released>> + 'a {
        self.timed(Op::Release, self.backend.release_dyn(claim, keep_for))
    }

    pub(crate) fn fence<'a>(&'a self, claim: &'a Claim) -> impl Future<Output = Result<FencingToken>> + 'a {
        self.timed(Op::Fence, self.backend.fence_dyn(claim))
    }

    pub(crate) fn downgrade<'a>(&'a self, claim: &'a Claim) -> impl Future<Output = Renewal> + 'a {
        self.timed(Op::Downgrade, self.backend.downgrade_dyn(claim))
    }

    pub(crate) fn latch<'a>(
        &'a self,
        key: &'a Key,
        step: &'a LatchStep,
    ) -> impl Future<Output = Result<LatchState>> + 'a {
        self.timed(Op::Latch, self.backend.latch_dyn(key, step))
    }

    pub(crate) fn others_wait<'a>(&'a self, claim: &'a Claim) -> impl Future<Output = Result<bool>> + 'a {
        self.timed(Op::OthersWait, self.backend.others_wait_dyn(claim))
    }
}
