//! A manager for tests, and everything that can happen to its locks.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::holder::TestHolder;
use super::store::TestStore;
use crate::backend::Backend;
use crate::error::{LockError, LossReason};
use crate::key::{IntoKey, Key};
use crate::manager::{LockManager, ManagerBuilder};
use crate::profile::Profile;
use crate::strategy;

/// A lease that no test lives to see the end of.
const LONG: Duration = Duration::from_secs(3_600);
/// How long a test waits for what it expects to happen.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks while everybody else has a turn, before time may go on.
const LOOKS: usize = 100;
/// By how much time goes on then.
const PAUSE: Duration = Duration::from_millis(10);

/// A manager over a store in memory that contends, fails and loses on demand.
///
/// It dereferences to its [`LockManager`]: hand a clone of that to the code under test, or run the code in
/// [`scope`](LockManager::scope). Each value has a store of its own, so tests do not meet.
///
/// # Examples
/// ```
/// use lock_core::testing::TestLocks;
/// use lock_core::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "order:<id>", strategy = "fail_fast")]
/// async fn ship(id: u64) -> Result<&'static str, LockError> {
///     Ok("shipped")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let locks = TestLocks::new();
/// locks
///     .scope(async {
///         assert_eq!(ship(1).await.unwrap(), "shipped");
///     })
///     .await;
///
/// let elsewhere = locks.contend("order:1").await;
/// assert!(locks.scope(ship(1)).await.unwrap_err().is_contended());
/// elsewhere.release().await;
///
/// locks.store_down();
/// assert!(locks.scope(ship(1)).await.unwrap_err().is_unavailable());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TestLocks {
    store: TestStore,
    manager: LockManager,
    /// Of another process.
    other: LockManager,
}

impl TestLocks {
    /// A manager over a store of its own.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Begins one with a namespace, profiles or defaults.
    pub fn builder() -> TestLocksBuilder {
        let store = TestStore::default();
        TestLocksBuilder {
            namespace: String::new(),
            builder: ManagerBuilder::new(Arc::new(store.clone())),
            store,
        }
    }

    /// The manager of the code under test.
    #[must_use]
    pub fn manager(&self) -> &LockManager {
        &self.manager
    }

    /// Has another process hold `key` from now on.
    ///
    /// # Panics
    /// When somebody holds it already ([`steal`](Self::steal) takes it away), and when the store is
    /// [down](Self::store_down).
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn contend<K: IntoKey>(&self, key: K) -> impl Future<Output = TestHolder> + use<K> {
        let key = named(key);
        let request = self.other.lock(key.clone()).ttl(LONG).strategy(strategy::fail_fast());
        let request = request.label("the other process of this test");
        async move {
            match request.acquire().await {
                Ok(guard) => TestHolder(guard),
                Err(error) => panic!("another process cannot take `{key}`: {error}"),
            }
        }
    }

    /// Has another process hold `key` from now on, for `time`; returns when it has it.
    ///
    /// # Panics
    /// As [`contend`](Self::contend), and outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn contend_for<K: IntoKey>(&self, key: K, time: Duration) -> impl Future<Output = ()> + use<K> {
        let contending = self.contend(key);
        async move {
            let holder = contending.await;
            tokio::spawn(async move {
                tokio::time::sleep(time).await;
                holder.release().await;
            });
        }
    }

    /// Takes `key` away from whoever of the code under test holds it: its body is dropped, its guard says
    /// [`Lost`](crate::LockErrorKind::Lost). The key is free then.
    ///
    /// # Panics
    /// When nobody of the code under test holds it.
    #[track_caller]
    pub fn lose(&self, key: impl IntoKey) {
        let key = named(key).in_namespace(&self.manager.engine().namespace);
        let engine = self.manager.engine();
        let holds = engine.holds().into_iter().filter(|hold| hold.claim.keys().any(|held| *held == key));
        let lost = holds.filter(|hold| hold.lose(LossReason::Taken)).inspect(|hold| {
            // Told before anybody else can have it, as a real store would be by the lease.
            let _ = self.store.memory.release_now(&hold.claim, None);
        });
        assert!(lost.count() > 0, "nobody holds `{key}`, so nobody can lose it");
    }

    /// As [`lose`](Self::lose), and another process holds the key at once, with a larger fencing token.
    ///
    /// # Panics
    /// As [`lose`](Self::lose), and when somebody else who waits for the key gets it first.
    ///
    /// # Cancel safety
    /// Once it is polled, the key is lost.
    #[track_caller]
    pub fn steal<K: IntoKey>(&self, key: K) -> impl Future<Output = TestHolder> + use<K> {
        let key = named(key);
        let locks = self.clone();
        async move {
            locks.lose(key.clone());
            locks.contend(key).await
        }
    }

    /// Takes the store down: every call fails from now on, renewals and releases too, until
    /// [`store_up`](Self::store_up). A lock that is held is lost when its lease is over.
    pub fn store_down(&self) {
        self.store.switches().down = true;
    }

    /// Ends every failure and delay.
    pub fn store_up(&self) {
        *self.store.switches() = super::store::Switches::default();
    }

    /// Has the next `times` attempts to acquire fail, of whatever key.
    pub fn fail_next(&self, times: u32) {
        self.store.switches().failing = times;
    }

    /// Has every renewal fail until [`store_up`](Self::store_up): what is held is endangered, then lost.
    pub fn fail_renewals(&self) {
        self.store.switches().fail_renewals = true;
    }

    /// Has every release fail until [`store_up`](Self::store_up): a key stays taken until the background gets through, or
    /// its lease is over.
    pub fn fail_releases(&self) {
        self.store.switches().fail_releases = true;
    }

    /// Has every call of the store take `time` from now on.
    pub fn delay(&self, time: Duration) {
        self.store.switches().delay = time;
    }

    /// Returns when at least `count` requests of the code under test wait for `key`: then a test can go on, sure that
    /// what it has started stands in the queue. No need to sleep.
    ///
    /// # Panics
    /// When that has not happened within ten seconds of the tokio clock.
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn until_waiting<K: IntoKey>(&self, key: K, count: usize) -> impl Future<Output = ()> + use<K> {
        let key = named(key);
        let locks = self.clone();
        async move {
            let full = key.in_namespace(&locks.manager.engine().namespace);
            let waiting = || locks.waiting(&full);
            let all = async {
                // On a paused clock, time goes on only when everybody sleeps: not before everybody had a turn.
                loop {
                    for _ in 0..LOOKS {
                        if waiting() >= count {
                            return;
                        }
                        tokio::task::yield_now().await;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            };
            if tokio::time::timeout(PATIENCE, all).await.is_err() {
                panic!("{count} should wait for `{key}`, and {} do", waiting());
            }
        }
    }

    /// How many requests of the code under test wait: those that take turns in the process, or stand in the store's queue.
    fn waiting(&self, key: &Key) -> usize {
        let engine = self.manager.engine();
        let in_store = self.store.memory.waiting(key, engine.owners.mint());
        engine.gate.waiters(key).max(in_store)
    }
}

impl Default for TestLocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for TestLocks {
    type Target = LockManager;

    fn deref(&self) -> &LockManager {
        &self.manager
    }
}

/// A key that the test has spelled out.
#[track_caller]
fn named(key: impl IntoKey) -> Key {
    key.into_key().unwrap_or_else(|error: LockError| panic!("{error}"))
}

/// Begins a [`TestLocks`].
///
/// # Examples
/// ```
/// use lock_core::testing::TestLocks;
/// use lock_core::{Profile, strategy};
///
/// let locks = TestLocks::builder()
///     .namespace("shop")
///     .profile("checkout", Profile::new().strategy(strategy::fail_fast()))
///     .build();
/// locks.validate(["checkout"])?;
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct TestLocksBuilder {
    store: TestStore,
    namespace: String,
    builder: ManagerBuilder,
}

impl TestLocksBuilder {
    /// As [`ManagerBuilder::namespace`].
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// As [`ManagerBuilder::profile`].
    pub fn profile(self, name: impl Into<String>, profile: Profile) -> Self {
        self.with(|builder| builder.profile(name, profile))
    }

    /// Anything else that a [`ManagerBuilder`] can say, but for the namespace.
    pub fn with(mut self, change: impl FnOnce(ManagerBuilder) -> ManagerBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Makes the manager.
    ///
    /// # Panics
    /// When [`ManagerBuilder::build`] returns an error.
    #[track_caller]
    #[must_use]
    pub fn build(self) -> TestLocks {
        let Self { store, namespace, builder } = self;
        let built = |builder: ManagerBuilder| builder.build().unwrap_or_else(|error| panic!("{error}"));
        let other = LockManager::builder(store.clone()).service("another process");
        TestLocks {
            manager: built(builder.namespace(namespace.clone())),
            other: built(other.namespace(namespace)),
            store,
        }
    }
}
