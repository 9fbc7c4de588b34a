//! Implements [`Backend`] for the store with sessions.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::control::SessionControl;
use super::sessions::{Entry, Sessions};
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Grant, GrantId, Held, LeaseScope, Listed,
    Listener, LockInfo, Placement, Released, Renew, Renewal, Waiting,
};
use crate::clock::Clock;
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// The lease of a grant in the memory store. It is so long that no grant expires there.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The time for which the sessions of [`SessionStore::new`] are certain to live.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A memory store whose grants belong to the session of their process. Clones share one store.
///
/// Each manager has its own session from the moment when it is [attached](Backend::attach). No grant ends before its
/// session ends. The lease of a grant is the time for which the session is certain to live.
///
/// # Examples
/// ```
/// use lock_core::testkit::SessionStore;
/// use lock_core::{LockManager, LossReason};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// let (store, sessions) = SessionStore::new();
/// let locks = LockManager::builder(store).build()?;
/// let guard = locks.lock("order:42").acquire().await?;
///
/// sessions.end_all();
/// assert_eq!(guard.lost().await, LossReason::SessionEnded);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SessionStore(Arc<Sessions>);

impl SessionStore {
    /// Returns an empty store in this process, and its control. The sessions live until [`SessionControl::end`].
    #[must_use]
    pub fn new() -> (Self, SessionControl) {
        Self::over(Sessions::new(TIMEOUT, Placement::Embedded, false))
    }

    /// Returns an empty store, and its control. A session ends by itself if no keep-alive arrives for `timeout`. While
    /// the manager exists, a task on the runtime that is passed to [`Backend::attach`] sends three keep-alives within
    /// that time.
    ///
    /// With [`Placement::Remote`] the library treats the store as remote, and uses real time.
    #[must_use]
    pub fn with_keep_alive(timeout: Duration, placement: Placement) -> (Self, SessionControl) {
        Self::over(Sessions::new(timeout, placement, true))
    }

    fn over(sessions: Sessions) -> (Self, SessionControl) {
        let sessions = Arc::new(sessions);
        (Self(Arc::clone(&sessions)), SessionControl(sessions))
    }

    fn renew_one(&self, claim: &Claim, answer: Option<Renewal>) -> Renewal {
        let sent = self.0.now();
        match (self.0.session(claim.owner.process()), answer) {
            (Err(error), _) => Renewal::Unknown(error),
            (Ok(_), _) if !self.0.is_granted(claim) => Renewal::NotOwned,
            (Ok((_, lease)), Some(Renewal::Renewed { waiters, .. })) => {
                Renewal::Renewed { sent, lease, waiters }
            }
            (Ok(_), answer) => answer.unwrap_or(Renewal::NotOwned),
        }
    }
}

/// Returns the claim with the lease that the memory store receives.
fn forever(claim: &Claim) -> Claim {
    Claim { ttl: FOREVER, ..claim.clone() }
}

/// Sends keep-alives as long as the process and the store exist.
async fn keep_alive(sessions: Weak<Sessions>, over: Arc<Notify>, process: u128, every: Duration) {
    loop {
        let mut over = std::pin::pin!(over.notified());
        over.as_mut().enable();
        // During the pause, this task holds no reference to the store, so that the store is dropped with its last
        // manager.
        if !sessions.upgrade().is_some_and(|sessions| sessions.sign_of_life(process)) {
            return;
        }
        let _ = tokio::time::timeout(every, over).await;
    }
}

fn without_expiry(lock: &mut LockInfo) {
    lock.holders.iter_mut().for_each(|holder| holder.remaining = None);
}

impl Backend for SessionStore {
    fn capability(&self) -> Capability {
        // A lock without renewals needs its whole lease at the time of the grant. So no lease may be longer than a
        // session is certain to live between two keep-alives: two thirds of the timeout.
        let certain = if self.0.keep_alive { self.0.timeout * 2 / 3 } else { self.0.timeout };
        Capability {
            store: "session",
            latches: false,
            waiting: Waiting::Watch { waiter_lease: self.0.timeout, tells_holder: true },
            lease: LeaseScope::Session,
            placement: self.0.placement,
            max_ttl: certain,
            ttl_step: None,
            ttl_advice: None,
            keeps_after_release: None,
            ..self.0.memory.capability()
        }
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let (number, lease) = self.0.session(claim.owner.process())?;
        let (sent, claim) = (self.0.now(), forever(claim));
        let (entry, attempt) = match self.0.memory.acquire(&claim, ask).await? {
            Attempt::Granted(Grant { fence, waiters, .. }) => {
                let grant = Grant::new(sent, lease).with_fence(fence).with_waiters(waiters);
                (Some(Entry::granted(claim)), Attempt::Granted(grant))
            }
            Attempt::Held(held) => {
                let queued_at = held.queued_at.map(|_| sent);
                let entry = queued_at.map(|_| Entry::queued(&self.0.memory, claim));
                (entry, Attempt::Held(Held { remaining: None, queued_at, ..held }))
            }
        };
        match entry.and_then(|entry| self.0.file(number, entry)) {
            Some(entry) => {
                self.0.memory.give_back(entry.claim(), None, Clock::Tokio.now());
                let detail = "the session ended while the request was under way";
                Err(LockError::new(LockErrorKind::Unavailable, detail).nothing_taken())
            }
            None => Ok(attempt),
        }
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let mut answers = Vec::with_capacity(batch.len());
        for Renew { claim, .. } in batch {
            let claim = forever(claim);
            let answer = self.0.memory.renew(&[Renew { claim: &claim, ttl: FOREVER }]).await.pop();
            answers.push(self.renew_one(&claim, answer));
        }
        answers
    }

    async fn release(&self, claim: &Claim, _keep_for: Option<Duration>) -> Result<Released> {
        self.0.expire();
        self.0.forget(claim);
        self.0.memory.release(claim, None).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.0.expire();
        self.0.memory.fence(claim).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let answer = self.0.memory.downgrade(&forever(claim)).await;
        self.renew_one(claim, Some(answer))
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.0.expire();
        let mut listed = self.0.memory.list(prefix, foreign, limit).await?;
        listed.locks.iter_mut().for_each(without_expiry);
        Ok(listed)
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.0.expire();
        let mut found = self.0.memory.inspect(key).await?;
        found.iter_mut().for_each(without_expiry);
        Ok(found)
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.0.memory.force_release(key, id).await
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        self.0.memory.attach(process, Weak::clone(&listener), None);
        let is_new = self.0.attach(process, listener);
        if let Some(background) = background.filter(|_| is_new && self.0.keep_alive) {
            // The first claim needs a session, so the session begins here.
            self.0.sign_of_life(process);
            let (sessions, over) = (Arc::downgrade(&self.0), Arc::clone(&self.0.over));
            background.spawn(keep_alive(sessions, over, process, self.0.timeout / 3));
        }
    }

    async fn changed(&self, claim: &Claim) {
        self.0.memory.changed(&forever(claim)).await;
        if self.0.loses_notifications() {
            std::future::pending::<()>().await;
        }
    }
}
