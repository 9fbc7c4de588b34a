//! Defines [`LockManager`], the entry point of the library.

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

/// The entry point of the library. A manager makes requests for locks in one store. Clones are cheap, and share all
/// state.
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

    /// Returns a request for the exclusive lock of `key`. The task that holds the key may enter the lock again.
    ///
    /// The text of the key is used unchanged; placeholders such as `<id>` are not replaced. Encode values that come
    /// from outside with a [`KeyBuilder`](crate::key::KeyBuilder), as the attribute and the HTTP layer do. Then no
    /// value can imitate another key, and the same value results in the same key everywhere:
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

    /// Returns a request for an exclusive lock of all `keys` at once. The request gets all of the keys or none. The
    /// lock also excludes [readers](Self::read) of each key. The keys are sorted and deduplicated, so two requests with
    /// the same keys in different orders never deadlock. A lock that loses one key loses all of them. The request fails
    /// with [`Unsupported`](LockErrorKind::Unsupported) if the store cannot lock several keys.
    ///
    /// If one of the keys is held, the request acquires the keys one after another. While its future is polled, the
    /// request keeps the keys that it already has. If the future is not polled for the ttl, the request loses these
    /// keys, and starts again at the next poll. One wait limit applies to all keys together, and an error names the key
    /// that was held. The lock has one [fencing token](crate::LockGuard::fencing_token), which is larger than every
    /// earlier token of each key. `max_waiters` applies to each key separately. If the task already holds some of the
    /// keys but not all, the request fails with [`Reentered`](LockErrorKind::Reentered), because it would wait for
    /// itself. A request may have at most [`max_keys`](crate::ManagerBuilder::max_keys) keys, by default 100.
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

    /// Returns a request for an exclusive lock of `key`. The store grants such requests in strict order of arrival
    /// across all processes.
    ///
    /// Every waiter has its own place in the store's queue. Each release goes to the store, which grants the lock to
    /// the next waiter in any process. So each change of the holder costs a round trip to the store, even inside one
    /// process. On a busy key, [`lock`](Self::lock) is faster.
    ///
    /// A waiter that dies delays the waiters after it by its ttl, or by the [waiter
    /// lease](crate::backend::Waiting::Watch) of the store if that is shorter. The waiter lease is 2 s on Redis and
    /// Postgres, 4 s on etcd, and the session timeout on ZooKeeper. The request fails with
    /// [`Unsupported`](LockErrorKind::Unsupported) if the store has no queue.
    pub fn fair(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Fair)
    }

    /// Returns a request for a read lock of `key`. A key can have any number of readers, or one writer. A new reader
    /// waits for the writers that arrived before it. Each reader has its own lease, so the lease of a crashed reader
    /// expires even if other readers renew theirs. A task that holds the read lock cannot get the write lock: its
    /// request fails at once with [`Upgrade`](LockErrorKind::Upgrade). If the store has no shared locks, the request
    /// fails with [`Unsupported`](LockErrorKind::Unsupported).
    pub fn read(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Read)
    }

    /// Returns a request for the write lock of `key`, for one writer and no readers. A writer gets the lock before
    /// readers that arrive later, and can become a reader with [`downgrade`](crate::LockGuard::downgrade). A read lock
    /// cannot become a write lock: if you may have to write, request `write`, and downgrade later. See also
    /// [`read`](Self::read).
    pub fn write(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Write)
    }

    /// Returns a request for one of `permits` permits of `key`. Permits are granted in order of arrival. Each permit
    /// has its own lease, which is renewed like the lease of a lock. Every request for the key must name the same
    /// number of permits. While permits are held, a request with another number or of another kind fails with
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest). The error text names both numbers or kinds, and says what to
    /// do. If the store has no semaphores, the request fails with [`Unsupported`](LockErrorKind::Unsupported).
    ///
    /// A deployment that changes the number must let the old permits expire first, or use a new key. While instances
    /// with the old number hold permits, instances with the new number are refused. If the number is part of the key,
    /// as in `pool:8` and `pool:10`, old and new instances both get permits. Until the last old instance is gone, up to
    /// the sum of both numbers of permits can then be held.
    pub fn semaphore(&self, key: impl IntoKey, permits: u32) -> LockRequest {
        self.request(key, Kind::Semaphore { permits })
    }

    /// Returns a request for a lock of `key` and of the given `kind`. Use this if your program chooses the kind at run
    /// time. `None` stands for the kind of the request's [profile](LockRequest::profile), or for [`Kind::Reentrant`] if
    /// the profile has no kind.
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

    /// Returns the count-down latch `key`. With a latch, a task waits until a number of other tasks are done. The text
    /// of the key is used unchanged, as in [`lock`](Self::lock). If the store has no latches, the calls of the latch
    /// fail with [`Unsupported`](LockErrorKind::Unsupported).
    pub fn latch(&self, key: impl IntoKey) -> CountDownLatch {
        CountDownLatch::new(Arc::clone(&self.hub), key)
    }

    /// Returns a candidate for the leadership of `key`. The store must have fencing tokens. The text of the key is used
    /// unchanged, as in [`lock`](Self::lock). The leader holds an exclusive lock of the key. See
    /// [`leader`](crate::leader).
    pub fn leader(&self, key: impl IntoKey) -> LeaderElection {
        LeaderElection::new(Arc::clone(&self.hub), key)
    }

    /// Checks that the manager has the profiles with these names. Without this check, a missing profile is only noticed
    /// when the first request uses it. The contents of the profiles are checked when the manager is built. With the
    /// feature `config`, [`validate_attributes`](Self#method.validate_attributes) needs no list, because it finds the
    /// names in `#[distributed_lock(profile = "..")]`.
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if a profile is missing. The text lists every missing name,
    /// and the name that may be meant.
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
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if there is no such profile. The text lists the profiles.
    pub fn profile(&self, name: &str) -> Result<Profile> {
        find(&self.hub.engine.profiles.in_force(), name).cloned()
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.hub.engine
    }

    /// Returns the name of the store: `memory`, `redis`, `quorum`, `postgres`, `postgres-advisory`, `etcd` or
    /// `zookeeper`. The name `redis` includes Sentinel and Cluster; `quorum` stands for `redlock://`.
    #[must_use]
    pub fn store(&self) -> &'static str {
        self.hub.engine.capability.store
    }

    /// Returns the namespace, the prefix of each key in the store. The text is empty if there is no namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.hub.engine.namespace
    }

    /// Returns how the owner records of this manager's locks identify this process: by host, process id and service.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.hub.engine.identity
    }

    /// Returns the number of locks that this manager holds in this process now. A lock that
    /// [lingers](crate::LockRequest::linger) does not count.
    #[must_use]
    pub fn held(&self) -> usize {
        self.hub.engine.held()
    }

    /// Subscribes to the future events of this manager's locks. There can be any number of subscribers. Without
    /// subscribers, events cost nothing.
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

    /// Registers the metrics of `template` at zero, before the first request for one of its locks. A dashboard then
    /// shows 0 instead of no data, and an alert has a value to compare with. The HTTP layer does this when it is built,
    /// and [`install`](Self::install) does it for the attributes of the program. For other templates use
    /// [`ManagerBuilder::template`](crate::ManagerBuilder::template). Without the feature `metrics` this does nothing.
    pub fn register_template(&self, template: &str) {
        self.hub.engine.observer.meters.register(template);
    }

    /// Counts work that ran without its lock because the store failed. The HTTP layer calls this if it continues
    /// without a lock, which is an option of the layer. Call this if your program continues without a lock, too.
    /// `template` is the template of the key, never the key itself.
    pub fn record_bypass(&self, template: &str) {
        self.hub.engine.observer.record_bypass(template);
    }

    /// Returns `error` in the form that the log may show. If [keys are redacted](crate::ManagerBuilder::redact_keys),
    /// this is only the error's kind. Integrations such as the HTTP layer use this method.
    #[must_use]
    pub fn redacted<'a>(&self, error: &'a LockError) -> impl fmt::Display + use<'a> {
        self.hub.engine.observer.redact_error(error)
    }

    /// Returns `None` if the log should not report a refused request of `template` now. The log should have at most one
    /// such report for each template in ten seconds. The inner value is the number of refusals that were not reported
    /// since the last report, or `None` if there are none. Integrations such as the HTTP layer use this.
    #[must_use]
    pub fn admit_refusal(&self, template: &str) -> Option<Option<u64>> {
        self.hub.engine.observer.admit(template, Warning::Refused)
    }
}
