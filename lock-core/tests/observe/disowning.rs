//! A store that forgets its grants.

use std::time::Duration;

use lock_core::Result;
use lock_core::backend::memory::Memory;
use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, FencingToken, Released, Renew, Renewal};

/// A store that answers every renewal and release with *not owned*. It returns no fencing token with a grant.
#[derive(Debug)]
pub(crate) struct Disowning(pub(crate) Memory);

impl Backend for Disowning {
    fn capability(&self) -> Capability {
        self.0.capability()
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        Ok(match self.0.acquire(claim, Ask::Try).await? {
            Attempt::Granted(grant) => Attempt::Granted(grant.with_fence(None)),
            held @ Attempt::Held(_) => held,
        })
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        batch.iter().map(|_| Renewal::NotOwned).collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.0.release(claim, keep_for).await.map(|_| Released::Taken)
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.0.fence(claim).await
    }
}
