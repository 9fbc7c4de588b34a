//! Builds a manager from its store, namespace and defaults.

use std::sync::Arc;
use std::time::Duration;

use super::connect;
use super::manager::LockManager;
use crate::backend::memory::Memory;
use crate::backend::{Backend, DynBackend};
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::Result;
use crate::hub::Hub;
use crate::key;
use crate::observe::Settings;
use crate::options::{Profile, Profiles};
use crate::owner::Identity;
use crate::strategy::Strategy;

/// Builds a manager from its store, namespace and defaults.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::{LockManager, Profile, backend::memory::Memory, strategy};
///
/// let locks = LockManager::builder(Memory::new())
///     .namespace("shop")
///     .ttl(Duration::from_secs(5))
///     .profile("checkout", Profile::new().strategy(strategy::fail_fast()))
///     .build()?;
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct ManagerBuilder {
    backend: Arc<dyn DynBackend>,
    namespace: String,
    service: String,
    pub(super) profiles: Profiles,
    settings: Settings,
}

impl ManagerBuilder {
    pub(crate) fn new(backend: Arc<dyn DynBackend>) -> Self {
        Self {
            backend,
            namespace: String::new(),
            service: String::new(),
            profiles: Profiles::default(),
            settings: Settings::default(),
        }
    }

    /// Connects like [`LockManager::connect`], but returns a builder, on which defaults can be set.
    ///
    /// # Errors
    /// As [`LockManager::connect`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self> {
        connect::connect(url).await.map(Self::new)
    }

    /// Connects like [`LockManager::from_env`], but returns a builder, on which defaults can be set. Reads only the
    /// variable `LOCK_URL`. The [namespace](Self::namespace) is not read from the environment: only `lockctl` reads
    /// `LOCK_NAMESPACE`. With the feature `config`, `config_from_env` adds the variables of profiles.
    ///
    /// # Errors
    /// As [`LockManager::from_env`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn from_env() -> Result<Self> {
        connect::from_env(None).await.map(Self::new)
    }

    /// Connects like [`LockManager::from_env_or`], but returns a builder, on which defaults can be set.
    ///
    /// # Errors
    /// As [`LockManager::from_env_or`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn from_env_or(default: &str) -> Result<Self> {
        connect::from_env(Some(default)).await.map(Self::new)
    }

    /// Sets the namespace: a prefix that is written before every key, with a colon between them. Services that share a
    /// store but not their locks need different namespaces. The characters `A-Z a-z 0-9 . _ -` are allowed, and up to
    /// 64 of them. By default there is no namespace, and keys are stored unchanged.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets the name of the service in owner records. Default: none.
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// Sets the lease of requests that do not set one. Default: 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.profiles.defaults.ttl = Some(ttl);
        self
    }

    /// Sets the strategy of requests that do not set one. Default: [`retry`](crate::strategy::retry()). The HTTP layer
    /// has its own default.
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.profiles.defaults.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets how long the manager's strategy waits. Default: the strategy's own limit.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.profiles.defaults.wait = Some(limit);
        self
    }

    /// Sets how long this process keeps a released lock for its next request; see
    /// [`LockRequest::linger`](crate::LockRequest::linger). Requests that cannot linger ignore this default. The others
    /// linger for at most a third of their ttl. Default: zero.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.profiles.defaults.linger = Some(linger);
        self
    }

    /// Sets the largest number of keys in one request for [several keys](LockManager::all), from 1 to 1,000. The store
    /// locks all of these keys in one step, and serves no other request during that step. On Redis, 100 keys take about
    /// a millisecond, and 1,000 keys about ten. A request for more keys fails with
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest). Default: 100.
    pub fn max_keys(mut self, max: usize) -> Self {
        self.profiles.max_keys = max;
        self
    }

    /// Adds a profile: a named set of defaults. If two profiles have the same name, the last one counts.
    pub fn profile(mut self, name: impl Into<String>, profile: Profile) -> Self {
        self.profiles.coded.insert(name.into(), profile);
        self
    }

    /// Registers the metrics of `template` at zero; see [`LockManager::register_template`]. Install the metrics
    /// recorder first.
    pub fn template(mut self, template: impl Into<String>) -> Self {
        self.settings.templates.push(template.into());
        self
    }

    /// Sets whether spans and the log show the template instead of the key. Use this if keys contain names of people.
    /// Errors and [`events`](LockManager::events) still contain the key; the program decides where they appear.
    /// Default: no.
    pub fn redact_keys(mut self, redact: bool) -> Self {
        self.settings.redact_keys = redact;
        self
    }

    /// Sets how long a lock may be held before it is reported. Each such lock is reported once, in the log at WARN and
    /// in the metrics. A long hold may mean that the body hangs, or that the guard was forgotten. Default: one hour.
    pub fn warn_held_after(mut self, held: Duration) -> Self {
        self.settings.held_long = held;
        self
    }

    /// Sets the wait after which a grant is logged at INFO. Default: 1 s.
    pub fn log_waited_after(mut self, waited: Duration) -> Self {
        self.settings.waited_long = waited;
        self
    }

    /// Builds the manager.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) in these cases: the namespace is too long or contains a
    /// forbidden character; `max_keys` is out of its bounds; the store cannot serve an option of the defaults or of a
    /// profile, such as the ttl; two of these options contradict each other, such as a wait limit and a strategy that
    /// accepts none; the store's [`Capability`](crate::backend::Capability) contradicts itself.
    /// [`Unavailable`](LockErrorKind::Unavailable) if the operating system returns no random bytes.
    pub fn build(self) -> Result<LockManager> {
        key::validate_namespace(&self.namespace)?;
        let (profiles, store) = (self.profiles, self.backend.capability_dyn());
        store.validate()?;
        profiles.begin(&store)?;
        let identity = Identity::of_this_process(&self.service);
        Hub::new(self.backend, self.namespace, identity, profiles, self.settings).map(LockManager::from_hub)
    }
}

impl LockManager {
    /// Returns a manager with a new store in the memory of this process, without a server. The locks of this manager do
    /// not exclude other processes.
    ///
    /// # Panics
    /// If the operating system provides no random bytes.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder(Memory::new()).build().expect("the operating system gives random bytes")
    }

    /// Connects to the store that `url` names. Without any feature, the only URL is `memory://`. The features of the
    /// crate add these forms:
    ///
    /// * `redis`: `redis://host:port/db`, `unix:///path/to/redis.sock`,
    ///   `redis+sentinel://host:port,host:port/primary/db` and `redis+cluster://host:port,host:port`; with `tls` also
    ///   `rediss` in place of `redis`
    /// * `redlock`: `redlock://host:port,host:port,host:port/db`, and `redlocks://` over TLS
    /// * `postgres`: `postgres://user:password@host:port/database`
    /// * `etcd`: `etcd://host:port,host:port`
    /// * `zookeeper`: `zookeeper://host:port,host:port/path`
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the URL cannot be parsed or has an unknown scheme,
    /// [`Unsupported`](LockErrorKind::Unsupported) if this build does not have the store,
    /// [`Unavailable`](LockErrorKind::Unavailable) if the store cannot be reached or refuses the connection, and
    /// [`NoQuorum`](LockErrorKind::NoQuorum) if too few servers of `redlock://` answer. The error text says what to do.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self> {
        ManagerBuilder::connect(url).await?.build()
    }

    /// Connects to the store that the environment variable `LOCK_URL` names. Reads no other variable.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the variable is not set or empty. For example, a deployment
    /// template without its value leaves the variable empty. There is no fallback to `memory://`: no one would notice
    /// that its locks exclude no other process. Otherwise as [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn from_env() -> Result<Self> {
        ManagerBuilder::from_env().await?.build()
    }

    /// Connects to the store that the environment variable `LOCK_URL` names. If the variable is not set, connects to
    /// the URL `default`. Use this for programs that also run on a machine without a store: with
    /// `from_env_or("memory://")`, the locks stay in this process, and exclude no other process.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the variable is set but empty. Otherwise as
    /// [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn from_env_or(default: &str) -> Result<Self> {
        ManagerBuilder::from_env_or(default).await?.build()
    }

    /// Returns a builder for a manager with `backend` as its store.
    pub fn builder(backend: impl Backend) -> ManagerBuilder {
        ManagerBuilder::new(Arc::new(backend))
    }
}
