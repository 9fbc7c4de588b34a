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
use crate::observe::{LockEvents, Warning};
use crate::options::Profile;
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
    pub(crate) fn of(hub: Arc<Hub>) -> Self {
        Self { hub }
    }

    /// Asks for `key`: one holder, and the task that holds may enter again.
    ///
    /// The text is taken as it is, placeholders are not filled in. Where a part of it comes from outside, encode it as
    /// the attribute and the HTTP layer do, so that no value can spell another key, and so that the same value means
    /// the same key everywhere:
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

    /// Asks for all of `keys`, or none: one holder for each. They are sorted and taken once each, so that two requests
    /// with the same keys in different orders never wait for each other; waiting for one of them and losing one of them
    /// is waiting for all and losing all. [`Unsupported`](LockErrorKind::Unsupported) on a store that cannot.
    ///
    /// While one of them is held, the others are waited for one after another and held meanwhile, so the time limit is one
    /// for all, and an error names the key that was held. There is one [fencing token](crate::LockGuard::fencing_token), larger
    /// than every earlier one of each key. `max_waiters` counts for each key by itself. A task that holds some of the keys
    /// and not all is refused with [`Reentered`](LockErrorKind::Reentered): it would wait for itself. At most
    /// [`max_keys`](crate::ManagerBuilder::max_keys), 100 unless the manager says otherwise.
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
        LockRequest::all(Arc::clone(&self.hub), keys)
    }

    /// Asks for `key` in strict order of arrival, over all processes. Every waiter has a place in the store's queue, and
    /// every hand-off goes by the store; [`lock`](Self::lock) is much faster on a key that one process wants many times.
    /// A waiter that dies delays those behind it by its ttl, and by the [waiter lease](crate::backend::Order::Arrival) of
    /// the store where that is shorter: 2 s on every store of this crate.
    /// [`Unsupported`](LockErrorKind::Unsupported) on a store without a queue.
    pub fn fair(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Fair)
    }

    /// Asks for `key` to read: any number of readers, no writer. Waits behind a writer that waits already. Each reader has
    /// a lease of its own: one that died never outlives it because others renew theirs. A task that reads cannot write:
    /// that is [`Upgrade`](LockErrorKind::Upgrade), at once. [`Unsupported`](LockErrorKind::Unsupported) on a store without
    /// shared locks.
    pub fn read(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Read)
    }

    /// Asks for `key` to write: one writer, no readers. Goes before readers that come later, and turns into a read lock
    /// with [`downgrade`](crate::LockGuard::downgrade). As [`read`](Self::read). A read lock that can be turned into a write lock
    /// is not provided: whoever may have to write asks for `write` and turns that into a read lock.
    pub fn write(&self, key: impl IntoKey) -> LockRequest {
        self.request(key, Kind::Write)
    }

    /// Asks for one of `permits` permits of `key`, in order of arrival. Each permit is a lease of its own, renewed like a
    /// lock. Everybody must name the same number: another one, or another kind, while permits are out is
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest), and the text names both and the way out.
    /// [`Unsupported`](LockErrorKind::Unsupported) on a store without semaphores.
    ///
    /// A deployment that changes the number must therefore let the old permits run out first, or name the key anew: while
    /// instances with the old number hold permits, those with the new one are refused. With `permits` in the key,
    /// `pool:8` beside `pool:10`, both go on, and until the last old instance is gone the two numbers add up.
    pub fn semaphore(&self, key: impl IntoKey, permits: u32) -> LockRequest {
        self.request(key, Kind::Semaphore { permits })
    }

    /// Asks for `key` as `kind`, for callers that get the kind as a value.
    pub fn request(&self, key: impl IntoKey, kind: Kind) -> LockRequest {
        LockRequest::new(Arc::clone(&self.hub), key, kind)
    }

    /// The count-down latch `key`: waiting until so many others are done. The key is taken as [`lock`](Self::lock) takes
    /// its own. [`Unsupported`](LockErrorKind::Unsupported) on a store without latches.
    pub fn latch(&self, key: impl IntoKey) -> CountDownLatch {
        CountDownLatch::new(Arc::clone(&self.hub), key)
    }

    /// Checks at start-up what a call would find out late: that the manager has every profile which the program names, in
    /// `#[distributed_lock(profile = "..")]` for one. What the profiles say was checked when the manager was built.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) with every name that is missing, and what it may have meant.
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
        self.hub.engine.profiles.require(names.iter().map(AsRef::as_ref))
    }

    /// The profile of this name.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when there is none, with those that there are.
    pub fn profile(&self, name: &str) -> Result<Profile> {
        self.hub.engine.profiles.get(name).cloned()
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.hub.engine
    }

    /// Name of the store: `memory`; `redis`, also with sentinels and on a Cluster; `quorum`, for `redlock://`.
    #[must_use]
    pub fn store(&self) -> &'static str {
        self.hub.engine.capability.store
    }

    /// How many locks this manager holds in this process now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.hub.engine.held()
    }

    /// What happens to the locks of this manager from now on. Any number may listen; while nobody does, it costs nothing.
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

    /// Counts the locks of `template` from zero on, before one of them is asked for: a dashboard then shows 0, and an alert
    /// has something to compare with. The HTTP layer says so when it is built; for others there is
    /// [`ManagerBuilder::template`](crate::ManagerBuilder::template). Without the feature `metrics` it does nothing.
    pub fn register_template(&self, template: &str) {
        self.hub.engine.observer.meters.know(template);
    }

    /// Counts a piece of work that ran without its lock because the store failed, as the HTTP layer does when it is told
    /// to; whoever runs something of the kind calls this. `template` is what the key is rendered from, never the key.
    pub fn record_bypass(&self, template: &str) {
        self.hub.engine.observer.record_bypass(template);
    }

    /// An error as the log may show it: by its kind alone where keys are to be kept out of the log. For the layers above.
    #[doc(hidden)]
    #[must_use]
    pub fn redacted<'a>(&self, error: &'a LockError) -> impl fmt::Display + use<'a> {
        self.hub.engine.observer.redact_error(error)
    }

    /// Whether the log is to be told now that a request of `template` was refused, and how many like it were left out
    /// before: one in ten seconds is told. For the layers above.
    #[doc(hidden)]
    #[must_use]
    pub fn admit_refusal(&self, template: &str) -> Option<Option<u64>> {
        self.hub.engine.observer.admit(template, Warning::Refused)
    }
}
