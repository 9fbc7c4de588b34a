//! Implements [`Postgres`]: connecting, and the `Backend` calls with their deadlines.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::command::Server;
use super::config::Config;
use super::doctor;
use super::link::{Goal, Listening, Shared, dial};
use super::migrate;
use crate::backend::remote::{Listeners, deadline, tries};
use crate::backend::{
    Ask, Attempt, Backend, BoxFuture, Capability, Claim, Fencing, FencingToken, Finding, GrantId, Heartbeat,
    LatchState, LatchStep, LeaseCheck, Listed, Listener, LockInfo, Ping, Released, Renew, Renewal,
    WAITER_LEASE, Waiting,
};
use crate::clock::Clock;
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;
use crate::runtime::current_runtime;

/// Postgres as a lock store.
///
/// The [module](super) describes the guarantees, the stored data and the limits. A process needs only one value of this
/// type. The value keeps one connection for each tokio runtime that uses it, and one connection that listens for all
/// managers. Dropping the value closes the connections. The locks stay held until they are released or expire.
pub struct Postgres {
    server: Server,
    listeners: Arc<Listeners>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("config", &self.server.shared().config).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects to the store at `url`: `postgres://[user[:password]@]host[:port][,host..][/database]`, or
    /// `postgres:///database?host=/run/postgresql` for a socket. If there are several hosts, the primary is used.
    ///
    /// The tables must exist: [`migrate`](super::migrate()) creates them, or the option `?migrate=true`. The options
    /// `?connect_timeout=10s&timeout=1s` (the defaults) limit this call and every other call. If there is no
    /// connection, a call waits for a new one until its own time limit. The [module](super) lists all options.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): the URL is wrong.
    /// [`Unsupported`](LockErrorKind::Unsupported): TLS without the feature `tls`, a server before 12, or a database
    /// that is not in UTF8. [`Unavailable`](LockErrorKind::Unavailable), temporary: the server does not answer.
    /// [`Unavailable`](LockErrorKind::Unavailable), permanent: the server is a standby or refuses the password, the
    /// user lacks a permission, or the tables are missing. No error shows the URL or a part of the password.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect() -> lock_core::Result<()> {
    /// use lock_core::backend::postgres::Postgres;
    ///
    /// let postgres = Postgres::connect("postgres://app:secret@db/shop").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        Self::open(Config::parse(url)?).await
    }

    /// Connects with settings that were already checked.
    pub(super) async fn open(config: Config) -> Result<Self> {
        current_runtime()?;
        config.check_leases()?;
        let listeners = Arc::<Listeners>::default();
        let shared = Arc::new(Shared::new(config, Arc::clone(&listeners))?);
        let failed = |failure: super::error::Failure| failure.to_error(shared.address());
        if shared.config.migrate {
            migrate::run_if_needed(&shared).await.map_err(failed)?;
        }
        shared.prove_session_pooling().await.map_err(failed)?;
        let limit = shared.config.connect_timeout;
        let first = |left| -> BoxFuture<'_, _> { Box::pin(dial(&shared, Goal::Tables, left)) };
        let dialled = tries::connect(shared.address(), limit, first).await;
        let session = dialled.map_err(failed)?;
        let listening = shared.config.listening(shared.is_pooled());
        if listening.is_none() && shared.config.is_expected_to_listen() {
            tracing::warn!(
                server = %shared.address(),
                "a pooler that shares its connections answers here, or a pool of the application lends them, and no notifications \
                 are delivered: waiters ask three times in two seconds; name the server itself with `?listen=host:port` or \
                 `listen_with`, write `?pooling=session` for a pooler in that mode, or write `?listen=off`"
            );
        }
        let listening = listening.map(|config| Listening::new(config, &shared)).transpose()?;
        Ok(Self { server: Server::new(shared, session, listening), listeners })
    }

    fn timeout(&self) -> Duration {
        self.server.shared().config.timeout
    }

    fn deadline(&self, lease: Duration) -> Duration {
        self.server.shared().config.deadline(lease)
    }
}

/// The shortest lease. A commit fits into half of this time.
const SHORTEST: Duration = Duration::from_millis(20);

impl Backend for Postgres {
    fn capability(&self) -> Capability {
        let tells_holder = self.server.listening.is_some();
        Capability {
            shared: true,
            permits: true,
            several: true,
            latches: true,
            lists: true,
            marks_sent: true,
            waiting: Waiting::Queue { waiter_lease: WAITER_LEASE, tells_holder, confirms: false },
            fencing: Fencing::StoreTime,
            min_ttl: SHORTEST,
            keeps_after_release: Some(deadline::LONGEST_KEPT),
            ..Capability::exclusive("postgres")
        }
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        takes(claim.keys())?;
        // A claim of several keys is not queued: in a queue, it would hold one key while it waits for another.
        let ask = if claim.more.is_empty() { ask } else { ask.without_queue() };
        let deadline = self.deadline(claim.ttl);
        // The attempt is not pinned here: its drop marks the claim if the request was sent.
        let attempt = self.server.acquire(claim, ask);
        let answer = self.server.connections.attempt(deadline, claim, attempt).await;
        answer.map_err(|failure| self.server.error(&failure).or_key(&claim.key))
    }

    async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat> {
        takes(claim.keys())?;
        let deadline = self.deadline(claim.ttl.min(WAITER_LEASE));
        self.server.for_key(&claim.key, deadline, self.server.heartbeat(claim)).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.server.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        takes(claim.keys())?;
        let deadline = deadline::of_release(self.timeout(), claim.ttl);
        self.server.for_key(&claim.key, deadline, self.server.release(claim, keep_for)).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        takes(claim.keys())?;
        let made =
            self.server.for_key(&claim.key, self.deadline(claim.ttl), self.server.fence(claim)).await?;
        made.map_err(|reason| LockError::lost(&claim.key, reason))
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let answer =
            self.server.for_key(&claim.key, self.deadline(claim.ttl), self.server.downgrade(claim)).await;
        answer.unwrap_or_else(Renewal::Unknown)
    }

    async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState> {
        takes(std::iter::once(key))?;
        let deadline = step.ttl().map_or(self.timeout(), |ttl| self.deadline(ttl));
        self.server.for_key(key, deadline, self.server.latch(key, step)).await
    }

    /// Lists the locks. `foreign` has no effect, because the tables contain no locks of other libraries.
    async fn list(&self, prefix: &str, _foreign: bool, limit: usize) -> Result<Listed> {
        if prefix.contains('\0') {
            // No stored key contains a zero byte.
            return Ok(Listed::new(Vec::new(), limit));
        }
        self.server.within(self.timeout(), self.server.list(prefix, limit)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        takes(std::iter::once(key))?;
        self.server.for_key(key, self.timeout(), self.server.inspect(key)).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        takes(std::iter::once(key))?;
        self.server.for_key(key, self.timeout(), self.server.force_release(key, id)).await
    }

    async fn ping(&self) -> Result<Ping> {
        let call = self.server.rows(&self.server.shared().statements.ping, Vec::new());
        let (_, sent) = self.server.within(self.timeout(), call).await?;
        let ping = Ping::new(Clock::Suspend.now().since(sent));
        Ok(match &self.server.listening {
            Some(listening) if listening.has_failed() => ping.with_degraded(
                "no notifications arrive, because there is no connection that listens: waiters ask three times in two \
                 seconds",
            ),
            _ => ping,
        })
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        let call = async { doctor::ask(&self.server.connections.get().await?, self.server.shared()).await };
        let facts = self.server.within(self.timeout(), call).await?;
        Ok(doctor::findings(&facts))
    }

    fn lease_check(&self, claim: &Claim) -> Option<LeaseCheck> {
        Some(LeaseCheck::new(&self.server.shared().statements.verify, claim))
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        self.listeners.add(process, Weak::clone(&listener));
        if let Some(listening) = &self.server.listening {
            listening.attach(listener, background);
        }
    }

    async fn close(&self) {
        self.server.close();
    }
}

/// Returns an error if Postgres cannot store one of the keys. Does no I/O.
fn takes<'a>(mut keys: impl Iterator<Item = &'a Key>) -> Result<()> {
    match keys.find(|key| key.as_str().contains('\0')) {
        None => Ok(()),
        Some(key) => {
            let detail = "postgres stores no text with a zero byte: choose another name";
            Err(LockError::new(LockErrorKind::InvalidKey, detail).with_key(key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library moves the backend and its futures between threads, so they must be `Send`.
    #[test]
    fn bounds() {
        fn threads<T: Send + Sync + 'static>() {}
        fn send<T: Send>(_: T) {}
        threads::<Postgres>();
        send(Postgres::connect("postgres://127.0.0.1/"));
    }
}
