//! A backend with a bug, to show that the checks of the tests detect it.

use std::fmt::Debug;
use std::sync::Weak;
use std::time::Duration;

use lock_core::LockError;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Grant, Heartbeat, Listener, Released, Renew,
    Renewal,
};

type Result<T> = std::result::Result<T, LockError>;

/// One out of this number of *held* answers becomes a grant.
const EVERY: u32 = 40;

/// A backend that sometimes answers *granted* when the store has answered *held*.
#[derive(Debug)]
pub(crate) struct Careless<B>(B);

impl<B: Backend> Careless<B> {
    pub(crate) fn new(backend: B) -> Self {
        Self(backend)
    }

    fn hear(&self, claim: &Claim, attempt: Attempt) -> Attempt {
        match attempt {
            Attempt::Held(_) if fastrand::u32(..EVERY) == 0 => {
                let sent = self.capability().placement.clock().now();
                Attempt::Granted(Grant::new(sent, claim.ttl))
            }
            attempt => attempt,
        }
    }
}

impl<B: Backend> Backend for Careless<B> {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.0.acquire(claim, ask).await.map(|attempt| self.hear(claim, attempt))
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        self.0.heartbeat(claim).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.0.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.0.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.0.fence(claim).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        self.0.downgrade(claim).await
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.0.attach(process, listener, background);
    }

    async fn changed(&self, claim: &Claim) {
        self.0.changed(claim).await;
    }

    async fn close(&self) {
        self.0.close().await;
    }
}
