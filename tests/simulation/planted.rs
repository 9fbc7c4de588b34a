//! Bugs of a client, planted around the store that the client uses. The library itself is unchanged.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lock_core::Result;
use lock_core::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Heartbeat, Listener, Released, Renew, Renewal,
};
use lock_core::clock::{Clock, Moment};
use lock_core::owner::Owner;
use lock_core::testkit::Claims;

/// The mistake of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The lease is counted from the answer instead of from the request.
    ValidityFromReply,
    /// Nothing is subtracted from the lease for clocks that run at another speed.
    NoDrift,
    /// An unanswered request is repeated by another owner, and the first owner is forgotten.
    RetryWithNewToken,
}

/// A store whose client makes a mistake.
pub(crate) struct Planted<B> {
    inner: B,
    mistake: Mistake,
    claims: Arc<Claims>,
    /// The owner that replaces another.
    instead: Arc<Mutex<HashMap<Owner, Owner>>>,
}

impl<B> fmt::Debug for Planted<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planted").field("mistake", &self.mistake).finish_non_exhaustive()
    }
}

impl<B: Backend> Planted<B> {
    pub(crate) fn new(inner: B, mistake: Mistake) -> Self {
        let claims = Arc::new(Claims::new().expect("random bytes"));
        Self { inner, mistake, claims, instead: Arc::default() }
    }

    /// Plants the mistake in each of several stores, which agree on the owners that replace others.
    pub(crate) fn each(stores: impl IntoIterator<Item = B>, mistake: Mistake) -> Vec<Self> {
        let claims = Arc::new(Claims::new().expect("random bytes"));
        let instead = Arc::default();
        let planted =
            |inner| Self { inner, mistake, claims: Arc::clone(&claims), instead: Arc::clone(&instead) };
        stores.into_iter().map(planted).collect()
    }

    /// Returns the start of a lease of `lease` that was requested at `sent`.
    fn counted(&self, sent: Moment, lease: Duration) -> Moment {
        match self.mistake {
            Mistake::ValidityFromReply => Clock::Suspend.now(),
            // The library subtracts 1 % and 2 ms.
            Mistake::NoDrift => sent.plus(lease / 100 + Duration::from_millis(2)),
            Mistake::RetryWithNewToken => sent,
        }
    }

    fn now_of(&self, claim: &Claim) -> Claim {
        let instead = self.instead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut claim = claim.clone();
        claim.owner = instead.get(&claim.owner).copied().unwrap_or(claim.owner);
        claim
    }

    fn replace(&self, owner: Owner) {
        let mut instead = self.instead.lock().unwrap_or_else(PoisonError::into_inner);
        instead.entry(owner).or_insert_with(|| self.claims.owner());
    }

    fn given(&self, mut answer: Result<Attempt>) -> Result<Attempt> {
        if let Ok(Attempt::Granted(grant)) = &mut answer {
            grant.sent = self.counted(grant.sent, grant.lease);
        }
        answer
    }

    async fn ask(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let now = self.now_of(claim);
        claim.mark_sent();
        let answer = self.inner.acquire(&now, ask).await;
        let unanswered = matches!(&answer, Err(error) if error.is_temporary());
        if self.mistake == Mistake::RetryWithNewToken && unanswered {
            self.replace(claim.owner);
            return self.inner.acquire(&self.now_of(claim), Ask::Try).await;
        }
        self.given(answer)
    }
}

impl<B: Backend> Backend for Planted<B> {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.ask(claim, ask.without_queue()).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let claims: Vec<Claim> = batch.iter().map(|renew| self.now_of(renew.claim)).collect();
        let renews = claims.iter().zip(batch).map(|(claim, renew)| Renew { claim, ttl: renew.ttl });
        let answers = self.inner.renew(&renews.collect::<Vec<_>>()).await;
        let counted = |(answer, renew): (Renewal, &Renew<'_>)| match answer {
            Renewal::Renewed { sent, lease, waiters } => {
                Renewal::Renewed { sent: self.counted(sent, renew.ttl), lease, waiters }
            }
            other => other,
        };
        answers.into_iter().zip(batch).map(counted).collect()
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.inner.release(&self.now_of(claim), keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.inner.fence(&self.now_of(claim)).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

/// A store whose client numbers the hand-offs of its process up to its own clock, instead of up to the time that the
/// store has confirmed. The library takes the client's time for the store's time.
pub(crate) struct ByClock<B> {
    inner: B,
    /// The first token of each owner, and the time of its arrival.
    first: Mutex<HashMap<Owner, (FencingToken, Moment)>>,
}

impl<B> fmt::Debug for ByClock<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByClock").finish_non_exhaustive()
    }
}

impl<B: Backend> ByClock<B> {
    pub(crate) fn new(inner: B) -> Self {
        Self { inner, first: Mutex::default() }
    }

    /// Returns the first token of this owner plus the time since its arrival, in microseconds.
    fn shown(&self, claim: &Claim) -> Option<FencingToken> {
        let (first, arrived) =
            *self.first.lock().unwrap_or_else(PoisonError::into_inner).get(&claim.owner)?;
        let passed = u64::try_from(Clock::Suspend.now().since(arrived).as_micros()).unwrap_or(0);
        Some(FencingToken::new(first.get() + passed))
    }

    fn learns(&self, claim: &Claim, token: Option<FencingToken>) {
        if let Some(token) = token {
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            first.entry(claim.owner).or_insert_with(|| (token, Clock::Suspend.now()));
        }
    }

    fn granted(&self, claim: &Claim, answer: Result<Attempt>) -> Result<Attempt> {
        if let Ok(Attempt::Granted(grant)) = &answer {
            self.learns(claim, grant.fence);
        }
        answer
    }
}

impl<B: Backend> Backend for ByClock<B> {
    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        self.granted(claim, self.inner.acquire(claim, ask).await)
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        let answer = self.inner.heartbeat(claim).await;
        if let Ok(Heartbeat::Granted(grant)) = &answer {
            self.learns(claim, grant.fence);
        }
        answer
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.inner.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.inner.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        match self.shown(claim).filter(|shown| claim.own_fence().is_none_or(|own| own < *shown)) {
            Some(shown) if claim.handoffs > 0 => Ok(shown),
            _ => {
                let token = self.inner.fence(claim).await?;
                self.learns(claim, Some(token));
                Ok(token)
            }
        }
    }

    fn attach(
        &self,
        process: u128,
        listener: Weak<dyn Listener>,
        background: Option<&tokio::runtime::Handle>,
    ) {
        self.inner.attach(process, listener, background);
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
