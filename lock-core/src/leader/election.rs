//! Defines [`LeaderElection`], in which a program takes part as a candidate.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::candidate::{Candidate, Term};
use super::leader::{Leader, leader_of};
use super::leadership::Leadership;
use crate::backoff::Pauses;
use crate::engine::Engine;
use crate::error::Result;
#[cfg(doc)]
use crate::error::{LockErrorKind, LossReason};
use crate::hub::Hub;
use crate::key::IntoKey;
use crate::kind::Kind;
use crate::options::OnLost;
use crate::options::Release;
use crate::request::LockRequest;
use crate::strategy;

/// The pauses between the campaigns of a candidate that repeatedly loses the leadership.
pub(super) const AFTER_A_LOSS: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_secs(1));

/// After a term of at least this length, the pauses start with the shortest again.
pub(super) const GOOD_TERM: Duration = Duration::from_secs(1);

/// One candidate for the leadership of a key. [`LockManager::leader`](crate::LockManager::leader) creates a candidate.
/// A candidate sends requests only when one of its methods is called.
///
/// All clones are the same candidate: if one clone leads, all clones lead, and [`resign`](Self::resign) affects all of
/// them. Every call of `LockManager::leader` creates a new candidate, even for the same key.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
/// use lock_core::LockManager;
///
/// let locks = LockManager::in_memory();
/// let election = locks.leader("scheduler").ttl(Duration::from_secs(5)).label("node-1");
/// let leadership = election.campaign().await?;
///
/// let others = locks.leader("scheduler");
/// let leader = others.current().await?.expect("somebody leads");
/// assert_eq!(leader.record.as_ref().and_then(|record| record.label()), Some("node-1"));
/// assert!(!leader.is_self && election.is_leader());
///
/// leadership.resign().await?;
/// assert!(others.current().await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "an election does nothing until one of its methods is called"]
pub struct LeaderElection {
    request: LockRequest,
    pub(super) on_lost: OnLost,
    pub(super) candidate: Arc<Candidate>,
}

impl LeaderElection {
    pub(crate) fn new(hub: Arc<Hub>, key: impl IntoKey) -> Self {
        // If the store keeps an order of arrival, a candidate waits in that order. Each leader then has its own grant,
        // so the store shows the record of the leader. After a hand-off inside the process, the store would show the
        // record of the previous leader.
        let in_order = hub.engine.capability.waiting.in_order();
        let kind = if in_order { Kind::Fair } else { Kind::Reentrant };
        let request = LockRequest::new(hub, key, Some(kind))
            .strategy(strategy::wait())
            .fencing(true)
            .reentrant(false)
            .renew(true)
            .linger(Duration::ZERO)
            .release(Release::Await);
        Self { request, on_lost: OnLost::default(), candidate: Arc::default() }
    }

    /// Sets the length of the lease. If a leader dies, its lease blocks other candidates for at most this long. A
    /// leader that cannot reach the store leads for at most this long. The lease is renewed after each third of its
    /// length. Default: the manager's ttl, which is 10 s if not set.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request = self.request.ttl(ttl);
        self
    }

    /// Sets the interval between renewals. Use this if the default, a third of the ttl, is too long. See
    /// [`LockRequest::renew_every`].
    pub fn renew_every(mut self, every: Duration) -> Self {
        self.request = self.request.renew_every(every);
        self
    }

    /// Sets the maximum time for which the candidate leads. After this time the leadership is
    /// [lost](LossReason::MaxHold), and the next candidate in line leads. Default: no maximum.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.request = self.request.max_hold(max);
        self
    }

    /// Sets the name of this candidate. Other programs see the name in the result of [`current`](Self::current),
    /// together with the host and the process id. Use different names for the candidates of one process. Default: no
    /// name.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.request = self.request.label(label);
        self
    }

    /// Sets what [`run`](Self::run) does with its body when the leadership is lost. With [`OnLost::Finish`], the body
    /// can detect the loss with its handle, and the candidate campaigns again after the body has ended. Default:
    /// [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// Checks the key and the options of this candidate, without any I/O. Call this at the start of a program.
    ///
    /// # Errors
    /// [`InvalidKey`](LockErrorKind::InvalidKey) or [`InvalidRequest`](LockErrorKind::InvalidRequest) if the key or an
    /// option is invalid. [`Unsupported`](LockErrorKind::Unsupported) on a store without fencing tokens.
    pub fn check(&self) -> Result<()> {
        self.request.clone().check()
    }

    /// Waits without a time limit until this candidate leads.
    ///
    /// While the store cannot be reached, the candidate keeps waiting, and warnings are logged.
    ///
    /// # Errors
    /// - [`Reentered`](LockErrorKind::Reentered): the calling task already leads, because the call is inside
    ///   [`run`](Self::run).
    /// - A failure of the store that no retry can fix, such as a wrong password.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    /// - The errors of [`check`](Self::check), before any I/O.
    ///
    /// # Panics
    /// If the tokio runtime has no timer. A store on the network also needs the I/O driver (`enable_all`).
    ///
    /// # Cancel safety
    /// If the future is dropped, the candidate leaves the queue. If the store has already granted the lock, the grant
    /// is released in the background.
    pub async fn campaign(&self) -> Result<Leadership> {
        let mut pauses = AFTER_A_LOSS;
        loop {
            let guard = self.request.clone().acquire().await?;
            // This call sends no request, because the token came with the grant.
            match guard.fencing_token().await {
                Ok(token) => {
                    let term = Term::new(token, guard.handle());
                    return Ok(Leadership::new(guard, self.candidate.begin_term(term)));
                }
                // The candidate lost the lock before its term could begin.
                Err(error) if error.is_lost() => drop(guard),
                Err(error) => return Err(error),
            }
            self.pause(&mut pauses).await?;
        }
    }

    /// Returns whether this candidate certainly leads now. The check needs no I/O. When the lease has ended, the result
    /// is `false`, even if the network has failed.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.candidate.terms().held().is_some()
    }

    /// Returns the leader, or `None` if no candidate leads. This sends one request to the store, and the answer may
    /// already be out of date when it arrives. Use the answer to contact or observe the leader, not to decide whether
    /// to lead.
    ///
    /// # Errors
    /// - [`Unsupported`](LockErrorKind::Unsupported) on a store that cannot list its holders.
    /// - [`InvalidRequest`](LockErrorKind::InvalidRequest) if the key is in use as a shared lock or a semaphore;
    ///   [`InvalidKey`](LockErrorKind::InvalidKey).
    /// - [`Unavailable`](LockErrorKind::Unavailable), [`ShuttingDown`](LockErrorKind::ShuttingDown).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn current(&self) -> Result<Option<Leader>> {
        let (engine, key) = (self.engine(), self.request.key()?);
        engine.check_open()?;
        let found = engine.inside(engine.store.backend.inspect_dyn(key)).await?;
        leader_of(found, &self.candidate.terms()).map_err(|error| error.with_key(key))
    }

    /// Ends every [`run`](Self::run) of this candidate, on all of its clones, and waits until they have ended. Each run
    /// drops its body, resigns, and returns `None`. Later runs are not affected. A [`Leadership`] is not affected
    /// either, because it has its own method [`resign`](Leadership::resign).
    ///
    /// Call this before [`shutdown`](crate::LockManager::shutdown), which otherwise waits for the body. A body that
    /// needs an orderly end should return by itself instead. A run whose future is not polled does not end, so drop
    /// such a future.
    ///
    /// # Cancel safety
    /// The runs also end if this future is dropped after its first poll.
    pub async fn resign(&self) {
        self.candidate.end_runs().await;
    }

    /// Waits before the next campaign, because the cause of the loss may still exist. The pause is random, so that
    /// candidates do not campaign at the same time.
    pub(super) async fn pause(&self, pauses: &mut Pauses) -> Result<()> {
        let part = 0.5 + fastrand::f64() / 2.0;
        self.engine().sleep(pauses.next().mul_f64(part)).await
    }

    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.request.hub().engine
    }

    pub(super) fn ttl_of_grant(&self) -> Duration {
        self.request.own_ttl()
    }
}

impl fmt::Debug for LeaderElection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderElection")
            .field("request", &self.request)
            .field("is_leader", &self.is_leader())
            .finish()
    }
}
