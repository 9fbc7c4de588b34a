//! The entry point: a store, its defaults, and the requests that start here.

use std::fmt;
use std::sync::Arc;

use crate::engine::Engine;
#[cfg(doc)]
use crate::error::LockErrorKind;
use crate::error::{LockError, Result};
use crate::hub::Hub;
use crate::key::IntoKey;
use crate::kind::Kind;
use crate::latch::CountDownLatch;
use crate::leader::LeaderElection;
use crate::observe::{LockEvents, Warning};
use crate::options::{Profile, find};
use crate::owner::Identity;
use crate::request::LockRequest;

/// The entry point: makes lock requests against one store. Cheap to clone; clones share everything.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use lock_core::LockManager;
///
/// let locks = LockManager::in_memory();
/// let guard = locks.lock("order:42").acquire().await?;
/// assert!(locks.lock("order:42").try_acquire().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LockManager {
    hub: Arc<Hub>,
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager")
            .field("store", &self.store())
            .field("namespace", &self.hub.engine.namespace)
            .field("held", &self.held())
            .finish()
    }
}

impl LockManager {
    pub(crate) fn from_hub(hub: Arc<Hub>) -> Self {
        Self { hub }
    }

    /// Requests `key` for one holder. The task that holds it may enter again.
    ///
    /// The text is used unchanged; placeholders are not filled in. Encode parts that come from outside as the attribute
    /// and the HTTP layer do. Then no value can spell another key, and the same value means the same key everywhere:
    /// ```
    /// # fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockManager, key::KeyBuilder};
    ///
    /// let locks = LockManager::in_memory();
    /// let path = "a/b";
    /// let request = locks.lock(KeyBuilder::new().literal("import:").value(&path).finish()?); // import:a%2Fb
    /// # drop(request);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Reentrant)
    }

    /// Requests all of `keys` or none, each exclusively. No one can [read](Self::read) any of them meanwhile, so use it also
    /// to write to several things that others read. The keys are sorted and deduplicated, so that two
    /// requests with the same keys in different orders never wait for each other. A request that waits for one key
    /// waits for all, and a lock that loses one key loses all. [`Unsupported`](LockErrorKind::Unsupported) on a store
    /// that cannot lock several keys.
    ///
    /// While one of the keys is held, the request waits for the keys one after another, and keeps the keys that it has
    /// while it is polled. If it is not polled, it loses them after its ttl, and begins again with the next poll. There
    /// is one time limit for all keys, and an error names the key that was held. There is one [fencing
    /// token](crate::LockGuard::fencing_token), larger than every earlier one of each key. `max_waiters` applies to
    /// each key separately. A task that holds some of the keys but not all is refused with
    /// [`Reentered`](LockErrorKind::Reentered): it would wait for itself. A request may have at most
    /// [`max_keys`](crate::ManagerBuilder::max_keys) keys, by default 100.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let (from, to) = ("account:2", "account:1");
    /// let guard = locks.all([from, to]).acquire().await?;
    /// assert!(locks.lock("account:1").try_acquire().await?.is_none());
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn all<K: IntoKey>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        LockRequest::for_all(Arc::clone(&self.hub), keys)
    }

    /// Requests `key` in strict order of arrival, over all processes.
    ///
    /// Every waiter has its own place in the store's queue. Each release goes to the store, which grants the lock to
    /// the next waiter, in whichever process. So a hand-over costs a round trip to the store, even inside one process:
    /// [`lock`](Self::lock) is faster on a key that is wanted many times.
    ///
    /// A waiter that dies delays the waiters after it by its ttl, or by the [waiter
    /// lease](crate::backend::Waiting::Watch) of the store if that is shorter: 2 s on Redis and Postgres, 4 s on etcd,
    /// and the session timeout on ZooKeeper. [`Unsupported`](LockErrorKind::Unsupported) on a store without a queue.
    pub fn fair(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Fair)
    }

    /// Requests `key` to read: any number of readers, and no writer. A reader waits until the writers that already wait
    /// have had the lock. Each reader has its own lease: the lease of a reader that died ends although others renew
    /// theirs. A task that reads cannot write; that fails at once with [`Upgrade`](LockErrorKind::Upgrade).
    /// [`Unsupported`](LockErrorKind::Unsupported) on a store without shared locks.
    pub fn read(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Read)
    }

    /// Requests `key` to write: one writer, and no readers. A writer goes before readers that arrive later, and can
    /// become a reader with [`downgrade`](crate::LockGuard::downgrade). Otherwise like [`read`](Self::read). A read
    /// lock cannot become a write lock: if you may have to write, request `write`, and downgrade.
    pub fn write(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Write)
    }

    /// Requests one of `permits` permits of `key`, in order of arrival. Each permit has its own lease, renewed like a
    /// lock. Every request must name the same number. Another number, or another kind, while permits are held fails
    /// with [`InvalidRequest`](LockErrorKind::InvalidRequest); the text names both and says what to do.
    /// [`Unsupported`](LockErrorKind::Unsupported) on a store without semaphores.
    ///
    /// A deployment that changes the number must therefore let the old permits run out first, or use a new key: while
    /// instances with the old number hold permits, those with the new number are refused. With the number in the key,
    /// `pool:8` beside `pool:10`, both continue, and until the last old instance is gone the two numbers add up.
    pub fn semaphore(&self, key: impl IntoKey, permits: u32) -> LockRequest {
        self.request(key, Kind::Semaphore { permits })
    }

    /// Requests `key` as `kind`, for callers that have the kind as a value. With `None` it is the kind of the request's
    /// [profile](LockRequest::profile), or [`Kind::Reentrant`] if the profile has none.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{Kind, LockManager, Profile, backend::memory::Memory};
    ///
    /// let report = Profile::new().kind(Kind::Semaphore { permits: 2 });
    /// let locks = LockManager::builder(Memory::new()).profile("report", report).build()?;
    /// let request = || locks.request("report:7", None).profile("report");
    /// let both = (request().acquire().await?, request().acquire().await?);
    /// assert!(request().try_acquire().await?.is_none());
    /// # drop(both);
    /// # Ok(())
    /// # }
    /// ```
    pub fn request(&self, key: impl IntoKey, kind: impl Into<Option<Kind>>) -> LockRequest {
        LockRequest::new(Arc::clone(&self.hub), key, kind.into())
    }

    /// Returns the count-down latch `key`, to wait until a number of others are done. The key is taken as in
    /// [`lock`](Self::lock). [`Unsupported`](LockErrorKind::Unsupported) on a store without latches.
    pub fn latch(&self, key: impl IntoKey) -> CountDownLatch {
        CountDownLatch::new(Arc::clone(&self.hub), key)
    }

    /// Returns a candidate for the lead of `key`, over every store with fencing tokens. The key is taken as in
    /// [`lock`](Self::lock); the leader holds an exclusive lock of it. See [`leader`](crate::leader).
    pub fn leader(&self, key: impl IntoKey) -> LeaderElection {
        LeaderElection::new(Arc::clone(&self.hub), key)
    }

    /// Checks that the manager has the profiles with these names. Without this check, the first call would find a
    /// missing one. The contents of the profiles were checked when the manager was built. With the feature `config`,
    /// [`validate_attributes`](Self#method.validate_attributes) finds the names in `#[distributed_lock(profile =
    /// "..")]` without a list.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) with every missing name, and the name that it may stand for.
    ///
    /// # Examples
    /// ```
    /// use lock_core::{LockManager, Profile, backend::memory::Memory};
    ///
    /// let locks = LockManager::builder(Memory::new()).profile("checkout", Profile::new()).build()?;
    /// locks.validate(["checkout"])?;
    /// let error = locks.validate(["chekout", "import"]).unwrap_err();
    /// assert!(error.to_string().contains("did you mean `checkout`?"));
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    pub fn validate<N: AsRef<str>>(&self, profiles: impl IntoIterator<Item = N>) -> Result<()> {
        let names: Vec<N> = profiles.into_iter().collect();
        self.hub.engine.profiles.require(names.iter().map(|name| (name.as_ref(), String::new())))
    }

    /// Returns the profile with this name.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when there is none; the text lists the profiles.
    pub fn profile(&self, name: &str) -> Result<Profile> {
        find(&self.hub.engine.profiles.in_force(), name).cloned()
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.hub.engine
    }

    /// Returns the name of the store: `memory`; `redis`, also with sentinels and on a Cluster; `quorum`, for
    /// `redlock://`; `postgres`; `postgres-advisory`; `etcd`; `zookeeper`.
    #[must_use]
    pub fn store(&self) -> &'static str {
        self.hub.engine.capability.store
    }

    /// Returns the namespace, which stands before each key in the store; empty if there is none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.hub.engine.namespace
    }

    /// Returns how the records of this manager's locks name this process: its host, process id and service.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.hub.engine.identity
    }

    /// Returns how many locks this manager holds in this process now. A lock that [lingers](crate::LockRequest::linger)
    /// does not count.
    #[must_use]
    pub fn held(&self) -> usize {
        self.hub.engine.held()
    }

    /// Subscribes to the future events of this manager's locks. There may be any number of subscribers; without one,
    /// events cost nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{LockEvent, LockManager};
    ///
    /// let locks = LockManager::in_memory();
    /// let mut events = locks.events();
    /// locks.lock("order:42").run(async {}).await?;
    /// match events.next().await {
    ///     Some(LockEvent::Granted { lock, waited, .. }) => println!("{} after {waited:?}", lock.key),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn events(&self) -> LockEvents {
        self.hub.engine.observer.events.subscribe()
    }

    /// Registers the metrics of `template` at zero, before one of its locks is requested. A dashboard then shows 0, and
    /// an alert has a value to compare with. The HTTP layer does this when it is built, and [`install`](Self::install)
    /// for the attributes of the program; for others there is
    /// [`ManagerBuilder::template`](crate::ManagerBuilder::template). Does nothing without the feature `metrics`.
    pub fn register_template(&self, template: &str) {
        self.hub.engine.observer.meters.register(template);
    }

    /// Counts a piece of work that ran without its lock because the store failed. The HTTP layer calls this if it is
    /// configured to continue without a lock; call it wherever your program does the same. `template` is the template
    /// of the key, never the key.
    pub fn record_bypass(&self, template: &str) {
        self.hub.engine.observer.record_bypass(template);
    }

    /// Returns an error as the log may show it: only its kind, if keys [must stay out of the log](crate::ManagerBuilder::redact_keys). For layers.
    #[must_use]
    pub fn redacted<'a>(&self, error: &'a LockError) -> impl fmt::Display + use<'a> {
        self.hub.engine.observer.redact_error(error)
    }

    /// Returns whether the log should now say that a request of `template` was refused, and how many like it were left
    /// out before: one in ten seconds is logged. For layers.
    #[must_use]
    pub fn admit_refusal(&self, template: &str) -> Option<Option<u64>> {
        self.hub.engine.observer.admit(template, Warning::Refused)
    }
}
