//! The election that a program takes part in.

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

/// The pauses of a candidate that is deposed again and again.
pub(super) const AFTER_A_LOSS: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_secs(1));

/// A term that lasted this long resets the pauses.
pub(super) const GOOD_TERM: Duration = Duration::from_secs(1);

/// One candidate for the lead of a key. [`LockManager::leader`](crate::LockManager::leader) makes one, which calls the
/// store only when one of its methods is called.
///
/// Clones are the same candidate: they share whether it leads, and [`resign`](Self::resign) concerns all of them. Every
/// call of `LockManager::leader` makes another candidate, even for the same key.
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
        // A candidate waits in order of arrival, if the store has one. Each leader then has its own grant, and the
        // store shows its record; a grant that is handed off inside the process would show the record of the previous
        // leader.
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

    /// Sets the lease: after the death of a leader there is none for at most this long, and a leader that cannot reach
    /// the store leads for at most this long. The lease is renewed after a third of it. Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request = self.request.ttl(ttl);
        self
    }

    /// Sets how often the lease is renewed, if after a third of it is too seldom; see [`LockRequest::renew_every`].
    pub fn renew_every(mut self, every: Duration) -> Self {
        self.request = self.request.renew_every(every);
        self
    }

    /// Sets the longest time for which the candidate leads. After it the lead is [lost](LossReason::MaxHold), and the
    /// next candidate in line leads. Default: none.
    pub fn max_hold(mut self, max: Duration) -> Self {
        self.request = self.request.max_hold(max);
        self
    }

    /// Sets the name of this candidate, which [`current`](Self::current) shows to others beside its host and process
    /// id. Give the candidates of one process different ones. Default: none.
    pub fn label(mut self, label: impl Into<Cow<'static, str>>) -> Self {
        self.request = self.request.label(label);
        self
    }

    /// Sets what [`run`](Self::run) does with its body when the lead is lost. With [`OnLost::Finish`] the body learns
    /// of the loss by its handle, and the candidate campaigns again when the body has ended. Default:
    /// [`OnLost::Cancel`].
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.on_lost = on_lost;
        self
    }

    /// Checks whether the candidate could ever lead, without any I/O: for the start of a program.
    ///
    /// # Errors
    /// [`InvalidKey`](LockErrorKind::InvalidKey), [`InvalidRequest`](LockErrorKind::InvalidRequest);
    /// [`Unsupported`](LockErrorKind::Unsupported) on a store without fencing tokens.
    pub fn check(&self) -> Result<()> {
        self.request.clone().check()
    }

    /// Waits until this candidate leads, however long that takes.
    ///
    /// While the store cannot be reached, the candidate keeps waiting, and the log warns.
    ///
    /// # Errors
    /// - [`Reentered`](LockErrorKind::Reentered): the calling task leads already, inside [`run`](Self::run).
    /// - A failure of the store that no retry can fix, such as a wrong password.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    /// - The errors of [`check`](Self::check), before any I/O.
    ///
    /// # Panics
    /// In a tokio runtime without the timer. A store on the network needs the I/O driver too (`enable_all`).
    ///
    /// # Cancel safety
    /// Dropping the future withdraws: a possible grant is released in the background, and the queue entry is removed.
    pub async fn campaign(&self) -> Result<Leadership> {
        let mut pauses = AFTER_A_LOSS;
        loop {
            let guard = self.request.clone().acquire().await?;
            // The token came with the grant.
            match guard.fencing_token().await {
                Ok(token) => {
                    let term = Term::new(token, guard.handle());
                    return Ok(Leadership::new(guard, self.candidate.begin_term(term)));
                }
                // The candidate was deposed before it could begin.
                Err(error) if error.is_lost() => drop(guard),
                Err(error) => return Err(error),
            }
            self.pause(&mut pauses).await?;
        }
    }

    /// Returns whether this candidate certainly leads now. Local, no I/O: it is `false` from the deadline of the lease
    /// on, whatever the network does.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.candidate.terms().held().is_some()
    }

    /// Returns the leader, or `None` if there is none. This is one request to the store, and the answer may be out of
    /// date when it arrives: use it to contact or watch the leader, not to decide whether to lead.
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
        let found = engine.inside(engine.store.inspect(key)).await?;
        leader_of(found, &self.candidate.terms()).map_err(|error| error.with_key(key))
    }

    /// Ends every [`run`](Self::run) of this candidate, on all of its clones, and completes when they have ended: each
    /// drops its body, gives up the lead, and returns `None`. A run that begins later is not affected, nor is a
    /// [`Leadership`], which [resigns by itself](Leadership::resign).
    ///
    /// Call it before [`shutdown`](crate::LockManager::shutdown), which otherwise waits for the body. A body that must
    /// end in good order returns instead. A run whose future is kept and not polled does not end: drop it.
    ///
    /// # Cancel safety
    /// The runs also end if this future is dropped after its first poll.
    pub async fn resign(&self) {
        self.candidate.end_runs().await;
    }

    /// Waits before the next campaign, because the cause that deposed the candidate may still last. The pause is
    /// random, because other candidates may have been deposed at the same time.
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
