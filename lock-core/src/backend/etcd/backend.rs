//! Implements the calls of the [`Backend`] contract for etcd.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::command::WAITER_LEASE;
use super::config::Config;
use super::entries::Entries;
use super::error::{Failure, Reaction};
use super::link::{Members, dial};
use super::session::{Sessions, now};
use super::store::Store;
use super::ttl;
use crate::backend::remote::queue_copy::QueueCopies;
use crate::backend::remote::{PerRuntime, deadline, tries};
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Finding, GrantId, Listed, Listener,
    LockInfo, Ping, Released, Renew, Renewal, Waiting,
};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;
use crate::runtime::current_runtime;
use crate::sync::Mutex;

/// The remark of a ping if the user has no right to write the key `lock:ping`.
const UNWRITTEN: &str = "only reads were checked: to learn whether writes are served, give the user read and write on the key `lock:ping`";

/// The longest time for which closing a store waits for its sessions without keys to end.
const FAREWELL: Duration = Duration::from_millis(200);

/// Locks in an etcd cluster.
///
/// The [module](super) describes what this store does, what it saves in etcd and what it cannot promise. A process
/// needs only one value of this type. The value keeps one connection to one member for each tokio runtime that uses the
/// value. Dropping the value closes the connections. The locks then end with their leases.
pub struct Etcd {
    store: Arc<Store>,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("config", self.config()).finish_non_exhaustive()
    }
}

impl Etcd {
    /// Connects to the cluster at `url`: `etcd://[user:password@]host[:port],host[:port],..`, or `etcds://` over TLS.
    ///
    /// One of the members must answer. When that member no longer answers, the other members are tried. The options
    /// `?connect_timeout=10s&timeout=2s` (the defaults) limit this call and every other call. A call without a
    /// connection waits for one within its own limit. The [module](super) lists all options.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): the URL is wrong.
    /// [`Unsupported`](LockErrorKind::Unsupported): `etcds` without the feature `tls`, a server before 3.3.
    /// [`Unavailable`](LockErrorKind::Unavailable): no member answers or knows a leader (temporary); the password is
    /// refused, or the database is full (permanent). No error shows the URL or a part of the password.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections. A lease without keys may remain. It expires after a few seconds.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn connect() -> lock_core::Result<()> {
    /// use lock_core::backend::etcd::Etcd;
    ///
    /// let etcd = Etcd::connect("etcd://10.0.0.1,10.0.0.2,10.0.0.3").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        current_runtime()?;
        let members = Arc::new(Members::new(Config::parse(url)?)?);
        let error = |failure: Failure| failure.error_of(format_args!("etcd at {}", members.config));
        let began = now();
        let limit = members.config.connect_timeout;
        let dialled = tries::connect(&members.config, limit, |left| Box::pin(dial(&members, left))).await;
        let session = dialled.map_err(error)?;
        let connections = PerRuntime::new(Arc::clone(&members), Some(session));
        let mut store = Store {
            connections,
            sessions: Sessions::default(),
            entries: Entries::default(),
            entering: Arc::default(),
            copies: QueueCopies::default(),
            runtimes: Mutex::default(),
            own: Weak::new(),
            min_ttl: ttl::STEP,
        };
        // A server that is slow to accept a connection is also slow to answer. So the proof may use the rest of
        // `limit`.
        let left = limit.saturating_sub(now().since(began)).max(members.config.timeout);
        let proved = timeout(left, prove(&store)).await.unwrap_or_else(|_| Err(Failure::no_answer(left)));
        store.min_ttl = proved.map_err(|failure| error(failure.before_any_request()))?;
        Ok(Self { store: Arc::new_cyclic(|own| Store { own: own.clone(), ..store }) })
    }

    fn config(&self) -> &Config {
        &self.store.connections.connector().config
    }

    fn error(&self, failure: &Failure) -> LockError {
        failure.error_of(format_args!("etcd at {}", self.config()))
    }

    /// Runs a call within its deadline.
    async fn within<T>(
        &self,
        key: &Key,
        deadline: Duration,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T> {
        let answer = self.store.connections.within(deadline, call).await;
        answer.map_err(|failure| self.error(&failure).with_key(key))
    }
}

/// Proves that the cluster can hold locks. Returns the shortest lease that the cluster grants, which depends on its
/// election timeout.
async fn prove(store: &Store) -> Result<Duration, Failure> {
    // A cluster with authentication refuses this read if the client is not logged in. Such a cluster answers all other
    // requests of this function.
    match store.read(&Key::new("lock-core").map_err(|_| super::error::unexpected("a key"))?).await {
        // A missing right to this key is no failure: the right to a key is checked when that key is locked.
        Err(failure) if failure.reaction == Reaction::Forbidden => {}
        read => drop(read?),
    }
    let (id, given, _) = store.grant(ttl::STEP).await?;
    // A proxy may forward all requests except keep-alives. Without this check, that would be noticed only when a lock
    // is lost.
    let kept = store.keep_alive(id).await;
    let kept = kept.and_then(|kept| kept.ok_or_else(|| super::error::unexpected("the time of a lease")));
    kept.map_err(|failure| {
        let text = format!(
            "it does not keep a lease alive ({}); is there a proxy before it that ends streams early?",
            failure.text()
        );
        Failure::new(LockErrorKind::Unavailable, text)
    })?;
    store.revoke(id).await?;
    Ok(given)
}

impl Backend for Etcd {
    fn capability(&self) -> Capability {
        let rounds_ttl = self.config().rounds_ttl;
        Capability {
            shared: true,
            permits: true,
            several: true,
            lists: true,
            marks_sent: true,
            waiting: Waiting::Watch { waiter_lease: WAITER_LEASE, tells_holder: false },
            fencing: Fencing::Counter,
            min_ttl: if rounds_ttl { ttl::SHORTEST_ROUNDED } else { self.store.min_ttl },
            max_ttl: ttl::LONGEST,
            ttl_step: (!rounds_ttl).then_some(ttl::STEP),
            ttl_advice: (!rounds_ttl).then_some(
                "with `?round_ttl=up` in the URL, etcd stores the next longer one, and the holder keeps to what it asked for",
            ),
            keeps_after_release: Some(ttl::LONGEST),
            ..Capability::exclusive("etcd")
        }
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        let capability = self.capability();
        capability.check(claim)?;
        capability.check_ttl(claim.ttl).map_err(|error| error.with_key(&claim.key).nothing_taken())?;
        let deadline = deadline::of_call(self.config().timeout, claim.ttl);
        let call = async {
            match claim.more.is_empty() {
                true => self.store.acquire(claim, ask).await,
                false => self.store.acquire_all(claim).await,
            }
        };
        let answer = self.store.connections.within(deadline, call).await;
        // A claim that was never sent has no entry in the store.
        answer.map_err(|failure| match claim.is_sent() {
            true if !failure.is_permanent() => self.error(&failure.in_doubt()).or_key(&claim.key),
            true => self.error(&failure).or_key(&claim.key),
            false => self.error(&failure.before_any_request()).or_key(&claim.key),
        })
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        if batch.is_empty() {
            return Vec::new();
        }
        let shortest = batch.iter().map(|renew| renew.ttl).min().unwrap_or_default();
        let deadline = deadline::of_renewal(self.config().timeout, shortest);
        let call = async { Ok(self.store.renew(batch).await) };
        match self.store.connections.within(deadline, call).await {
            Ok(answers) => answers
                .into_iter()
                .zip(batch)
                .map(|(answer, renew)| {
                    let unknown = |failure| Renewal::Unknown(self.error(&failure).with_key(&renew.claim.key));
                    answer.unwrap_or_else(unknown)
                })
                .collect(),
            Err(failure) => {
                let unknown =
                    |renew: &Renew<'_>| Renewal::Unknown(self.error(&failure).with_key(&renew.claim.key));
                batch.iter().map(unknown).collect()
            }
        }
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.within(&claim.key, self.config().timeout, self.store.release(claim, keep_for)).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        let made = self
            .within(&claim.key, deadline::of_call(self.config().timeout, claim.ttl), self.store.fence(claim))
            .await?;
        made.map_err(|reason| LockError::lost(&claim.key, reason))
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        let call = self.store.downgrade(claim);
        let answer = self.within(&claim.key, deadline::of_call(self.config().timeout, claim.ttl), call).await;
        answer.unwrap_or_else(Renewal::Unknown)
    }

    async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed> {
        self.store.list(prefix, foreign, limit).await.map_err(|failure| self.error(&failure))
    }

    async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>> {
        self.within(key, self.config().timeout, self.store.inspect(key)).await
    }

    async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool> {
        self.within(key, self.config().timeout, self.store.force_release(key, id)).await
    }

    async fn ping(&self) -> Result<Ping> {
        let began = now();
        let serves = async {
            match self.store.write_nothing().await {
                Err(failure) if failure.reaction == Reaction::Forbidden => {
                    self.store.linearizable_read().await.map(|()| false)
                }
                answer => answer.map(|()| true),
            }
        };
        let may_write = self.store.connections.within(self.config().timeout, serves).await;
        let may_write = may_write.map_err(|failure| self.error(&failure))?;
        let ping = Ping::new(now().since(began));
        Ok(if may_write { ping } else { ping.with_degraded(UNWRITTEN) })
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        let findings = self.store.doctor().await;
        findings.map_err(|failure| self.error(&failure.before_any_request()))
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        if let Some(background) = background {
            let mut runtimes = self.store.runtimes.lock();
            runtimes.retain(|(of, _)| *of != process);
            runtimes.push((process, background.clone()));
        }
        self.store.connections.connector().listeners.add(process, listener);
    }

    async fn changed(&self, claim: &Claim) {
        self.store.changed(claim).await;
    }

    async fn others_wait(&self, claim: &Claim) -> Result<bool> {
        self.within(&claim.key, self.config().timeout, self.store.others_wait(claim)).await
    }

    async fn close(&self) {
        // Without a connection, `close` does not wait for the cluster, because the leases expire.
        if self.store.connections.current().is_some() {
            let _ = timeout(FAREWELL, self.store.end_sessions()).await;
        }
        self.store.connections.close();
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
        threads::<Etcd>();
        send(Etcd::connect("etcd://127.0.0.1/"));
    }
}
