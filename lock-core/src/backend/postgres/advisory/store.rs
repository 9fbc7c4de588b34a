//! Implements [`PostgresAdvisory`]: a session for each attached manager, and the `Backend` calls.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::id;
use super::session::{Session, now};
use crate::backend::postgres::config::Config;
use crate::backend::postgres::doctor;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::Shared;
use crate::backend::remote::session_keeper::{Keepers, Session as _};
use crate::backend::remote::{deadline, session_keeper, tries};
use crate::backend::{
    Ask, Attempt, Backend, BoxFuture, Capability, Claim, Finding, LeaseScope, Listener, Ping, Released,
    Renew, Renewal,
};
use crate::error::{LockError, LockErrorKind, Result};
use crate::runtime::current_runtime;

type SessionKeeper = session_keeper::SessionKeeper<Session>;

/// Postgres's advisory locks as a lock store.
///
/// The [module](super) describes the limits of this store. A process needs only one value of this type. Each manager
/// that uses the value has one session. Dropping the value ends the sessions, which releases their locks.
pub struct PostgresAdvisory {
    shared: Arc<Shared>,
    keepers: Keepers<Session>,
}

impl fmt::Debug for PostgresAdvisory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresAdvisory").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl PostgresAdvisory {
    /// Connects to the server at `url` like [`Postgres::connect`](super::super::Postgres::connect), but needs no
    /// tables. The option `mode=advisory` is allowed. The options `schema`, `migrate` and `listen` are refused, because
    /// they have no meaning here. `session_timeout=10s` (the default) is the time after which the server frees the
    /// locks of a silent process.
    ///
    /// # Errors
    ///
    /// The errors of [`Postgres::connect`](super::super::Postgres::connect).
    /// [`Unsupported`](LockErrorKind::Unsupported) also if the server is older than 14, or behind a pooler that shares
    /// its connections.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect() -> lock_core::Result<()> {
    /// use lock_core::LockManager;
    /// use lock_core::backend::postgres::advisory::PostgresAdvisory;
    ///
    /// let advisory = PostgresAdvisory::connect("postgres://app:secret@db/shop").await?;
    /// let locks = LockManager::builder(advisory).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        Self::open(Config::parse(url)?).await
    }

    /// Connects with settings that were already checked.
    pub(in crate::backend::postgres) async fn open(mut config: Config) -> Result<Self> {
        current_runtime()?;
        config.check_advisory()?;
        config.advisory = true;
        let shared = Arc::new(Shared::new(config, Arc::default())?);
        shared.prove_session_pooling().await.map_err(|failure| failure.to_error(shared.address()))?;
        // This session only checks the server. The sessions of the managers run on other threads.
        let begin = |left| -> BoxFuture<'_, _> { Box::pin(Session::begin(&shared, left)) };
        let asked = tries::connect(shared.address(), shared.config.connect_timeout, begin).await;
        drop(asked.map_err(|failure| failure.to_error(shared.address()))?);
        Ok(Self { shared, keepers: Keepers::default() })
    }

    fn error(&self, failure: &Failure) -> LockError {
        failure.to_error(self.shared.address())
    }

    /// Renews without a request to the server: a grant lasts as long as its session.
    fn renew_one(&self, claim: &Claim) -> Renewal {
        let Some(keeper) = self.keepers.get(claim.owner.process()) else { return Renewal::NotOwned };
        // The keeper itself reports the grants of an ended session as lost.
        let Some(session) = keeper.current() else {
            return Renewal::Unknown(self.error(&keeper.failure()).with_key(&claim.key));
        };
        if !session.holds(id::number_of(&claim.key), claim.owner) {
            return Renewal::NotOwned;
        }
        let sent = now();
        let lease = session.certain(sent);
        if session.is_silent(sent) || lease.is_zero() {
            let failure = Failure::new(LockErrorKind::Unavailable, "the server is silent");
            return Renewal::Unknown(self.error(&failure).with_key(&claim.key));
        }
        Renewal::Renewed { sent, lease, waiters: None }
    }

    /// Returns the keeper of any attached manager.
    fn any_keeper(&self) -> Result<Arc<SessionKeeper>> {
        let keeper = self.keepers.all().into_iter().find(|(_, keeper)| keeper.has_manager());
        keeper.map(|(_, keeper)| keeper).ok_or_else(|| {
            let detail = "the store is closed, or no manager is attached to it";
            LockError::new(LockErrorKind::ShuttingDown, detail)
        })
    }

    /// Runs a call that needs the session of `keeper`, with the store's time limit for calls.
    async fn within<T>(
        &self,
        keeper: &SessionKeeper,
        call: impl Future<Output = std::result::Result<T, Failure>>,
    ) -> Result<T> {
        let limit = self.shared.config.timeout;
        let answer = match (timeout(limit, call).await, keeper.current()) {
            (Ok(answer), _) => answer,
            (Err(_), Some(_)) => Err(Failure::no_answer(limit)),
            (Err(_), None) => Err(keeper.failure()),
        };
        answer.map_err(|failure| self.error(&failure))
    }

    /// Returns the server process of a manager's session. For tests.
    #[cfg(feature = "testkit")]
    #[doc(hidden)]
    pub fn session_of(&self, process: u128) -> Option<i32> {
        Some(self.keepers.get(process)?.current()?.pid)
    }
}

impl Backend for PostgresAdvisory {
    fn capability(&self) -> Capability {
        Capability {
            marks_sent: true,
            lease: LeaseScope::Session,
            // The server frees the keys of a dead process when its session ends, and not before.
            min_ttl: self.shared.config.session_timeout(),
            ttl_advice: Some("a lock lasts as long as its session: connect with a shorter `session_timeout`"),
            ..Capability::exclusive("postgres-advisory")
        }
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        self.capability().check(claim)?;
        let keeper = self.keepers.attached(claim)?;
        let attempt = async { keeper.session().await?.attempt(claim, id::number_of(&claim.key)).await };
        let deadline = self.shared.config.deadline(claim.ttl);
        let answer = match timeout(deadline, attempt).await {
            Ok(answer) => answer,
            // A claim that was never sent has changed nothing in the store.
            Err(_) if claim.is_sent() => Err(Failure::no_answer(deadline)),
            Err(_) => Err(keeper.failure()),
        };
        answer.map_err(|failure| self.error(&failure).with_key(&claim.key))
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        batch.iter().map(|Renew { claim, .. }| self.renew_one(claim)).collect()
    }

    async fn release(&self, claim: &Claim, _keep_for: Option<Duration>) -> Result<Released> {
        let keeper = self.keepers.attached(claim)?;
        let release = async {
            loop {
                let session = keeper.session().await?;
                let released = session.release(claim.owner, id::number_of(&claim.key)).await;
                // If the session has ended, the next session queries whether the key is still locked.
                if released.is_ok() || !session.is_over() {
                    return released;
                }
            }
        };
        let deadline = deadline::of_release(self.shared.config.timeout, claim.ttl);
        let answer = timeout(deadline, release).await;
        let answer = answer.unwrap_or_else(|_| Err(Failure::no_answer(deadline)));
        answer.map_err(|failure| self.error(&failure).with_key(&claim.key))
    }

    async fn ping(&self) -> Result<Ping> {
        let keeper = self.any_keeper()?;
        let call = async {
            let session = keeper.session().await?;
            let sent = now();
            match session.prove().await? {
                true => Ok(Ping::new(now().since(sent))),
                false => {
                    Err(Failure::new(LockErrorKind::Unavailable, "another session of the server answers"))
                }
            }
        };
        self.within(&keeper, call).await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        let keeper = self.any_keeper()?;
        let call = async { doctor::ask(keeper.session().await?.connection(), &self.shared).await };
        let facts = self.within(&keeper, call).await?;
        Ok(doctor::findings(&facts))
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        self.keepers.attach(process, listener, background, || Arc::clone(&self.shared));
    }

    async fn close(&self) {
        self.keepers.drain().iter().for_each(|keeper| drop(keeper.close()));
    }
}
