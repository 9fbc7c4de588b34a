//! Defines the manager for tests, and the faults that a test can cause.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::fault::StoreFault;
use super::history::{History, TestEvent};
use super::holder::TestHolder;
use super::store::{Switches, TestStore};
use super::until::until;
use crate::error::{LockError, LossReason};
use crate::key::{IntoKey, Key};
use crate::kind::Kind;
use crate::lease::Lease;
use crate::manager::LockManager;
use crate::strategy;

/// The length of a lease that does not expire during a test.
const LONG: Duration = Duration::from_secs(3_600);

/// A manager with a store in memory. A test can let another process hold keys, let calls fail, and take locks away.
///
/// This type dereferences to its [`LockManager`]. Pass a clone of that manager to the code under test, or run the code
/// in [`scope`](LockManager::scope). Each value has its own store, so tests do not affect each other.
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
    pub(super) store: TestStore,
    pub(super) manager: LockManager,
    /// The manager of another process.
    pub(super) other: LockManager,
    pub(super) history: History,
}

impl TestLocks {
    /// Returns the manager of the code under test.
    #[must_use]
    pub fn manager(&self) -> &LockManager {
        &self.manager
    }

    /// Lets another process hold an exclusive lock on `key`.
    ///
    /// # Panics
    /// Panics when the key is held already, or has a waiter. To take away a key that is held, use
    /// [`steal`](Self::steal).
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn contend<K: IntoKey>(&self, key: K) -> impl Future<Output = TestHolder> + use<K> {
        self.contend_as(key, Kind::Reentrant)
    }

    /// Lets another process hold a lock of `kind` on `key`. If the code under test requests a semaphore, let the other
    /// process hold permits of the same semaphore. Each holder has one permit.
    ///
    /// # Panics
    /// Panics when such a lock cannot be acquired at once.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Examples
    /// ```
    /// use lock_core::Kind;
    /// use lock_core::testing::TestLocks;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = TestLocks::new();
    /// let _one = locks.contend_as("gpu", Kind::Semaphore { permits: 2 }).await;
    /// assert!(locks.semaphore("gpu", 2).try_acquire().await.unwrap().is_some());
    /// let _other = locks.contend_as("gpu", Kind::Semaphore { permits: 2 }).await;
    /// assert!(locks.semaphore("gpu", 2).try_acquire().await.unwrap().is_none());
    /// # }
    /// ```
    #[track_caller]
    pub fn contend_as<K: IntoKey>(&self, key: K, kind: Kind) -> impl Future<Output = TestHolder> + use<K> {
        let key = named(key);
        let request = self.other.request(key.clone(), kind).ttl(LONG).strategy(strategy::fail_fast());
        async move {
            match request.acquire().await {
                Ok(guard) => TestHolder(guard),
                Err(error) => panic!("another process cannot take `{key}`: {error}"),
            }
        }
    }

    /// Lets another process hold `key` for `time`. Returns when that process holds the key.
    ///
    /// # Panics
    /// Panics when [`contend`](Self::contend) does, and outside a tokio runtime.
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

    /// Takes `key` away from the code under test. The work under the lock is dropped at once, or the guard reports
    /// [`Lost`](crate::LockErrorKind::Lost) with the reason [`Taken`](LossReason::Taken). Then the key is free. If the
    /// lock has several keys, all of them are lost.
    ///
    /// # Panics
    /// Panics when the code under test does not hold the key. To wait until it does, use
    /// [`until_held`](Self::until_held).
    #[track_caller]
    pub fn lose(&self, key: impl IntoKey) {
        let key = self.full(&named(key));
        let lost = self.leases_of(&key).filter(|lease| lease.loss().is_none());
        let lost = lost.filter(|lease| lease.lose(LossReason::Taken)).inspect(|lease| {
            // The key is freed after the loss, because a real store does not grant the key to another owner before the
            // lease has ended.
            let _ = self.store.memory.give_back(lease.claim(), None, lease.now());
        });
        assert!(lost.count() > 0, "nobody holds `{key}`, so nobody can lose it");
    }

    /// Takes `key` away like [`lose`](Self::lose). Then another process acquires the key at once, with a larger fencing
    /// token.
    ///
    /// # Panics
    /// Panics when [`lose`](Self::lose) does. Also panics when the other process cannot acquire the key, because other
    /// owners share the key, are queued for it, or are faster on another thread.
    ///
    /// # Cancel safety
    /// The key is lost at the first poll of the future.
    #[track_caller]
    pub fn steal<K: IntoKey>(&self, key: K) -> impl Future<Output = TestHolder> + use<K> {
        let key = named(key);
        let locks = self.clone();
        async move {
            locks.lose(key.clone());
            locks.contend(key).await
        }
    }

    /// Takes the store down for the code under test. Every call fails until [`store_up`](Self::store_up), including
    /// renewals and releases. A held lock is lost when its lease is over. The other process, which a [`TestHolder`]
    /// belongs to, can still reach the store.
    pub fn store_down(&self) {
        self.store.switches().down = true;
    }

    /// Ends every failure and delay, and resets [`set_fault`](Self::set_fault).
    pub fn store_up(&self) {
        *self.store.switches() = Switches::default();
    }

    /// Lets the next `times` attempts to acquire any key fail. An attempt is one call of the store. A strategy that
    /// waits makes further attempts, so it succeeds if it has time for more than `times` attempts.
    pub fn fail_next(&self, times: u32) {
        self.store.switches().failing = times;
    }

    /// Lets every renewal fail until [`store_up`](Self::store_up). Held locks are first endangered, and then lost.
    pub fn fail_renewals(&self) {
        self.store.switches().fail_renewals = true;
    }

    /// Lets every release fail until [`store_up`](Self::store_up). A key then stays held until a retry in the
    /// background succeeds, or until its lease is over.
    pub fn fail_releases(&self) {
        self.store.switches().fail_releases = true;
    }

    /// Sets the way in which calls fail. The default is [`StoreFault::Unreachable`], and [`store_up`](Self::store_up)
    /// restores this default.
    ///
    /// # Examples
    /// ```
    /// use lock_core::LockErrorKind;
    /// use lock_core::testing::{StoreFault, TestLocks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = TestLocks::new();
    /// locks.set_fault(StoreFault::NoQuorum);
    /// locks.fail_next(1);
    /// let error = locks.lock("order:7").try_acquire().await.unwrap_err();
    /// assert_eq!(error.kind(), LockErrorKind::NoQuorum);
    /// # }
    /// ```
    pub fn set_fault(&self, fault: StoreFault) {
        self.store.switches().fault = fault;
    }

    /// Lets every later call of the store take `time`.
    pub fn delay(&self, time: Duration) {
        self.store.switches().delay = time;
    }

    /// Waits until at least `count` requests of the code under test wait for `key`. Use this method instead of a sleep,
    /// which does not guarantee that the requests are queued.
    ///
    /// # Panics
    /// Panics when fewer requests wait after ten seconds of the tokio clock.
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn until_waiting<K: IntoKey>(&self, key: K, count: usize) -> impl Future<Output = ()> + use<K> {
        let key = self.full(&named(key));
        let locks = self.clone();
        async move {
            if !until(|| locks.waiting(&key) >= count).await {
                panic!("{count} requests should wait for `{key}`, but {} do", locks.waiting(&key));
            }
        }
    }

    /// Waits until the code under test holds `key`.
    ///
    /// # Panics
    /// Panics when the code under test does not hold `key` after ten seconds of the tokio clock.
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn until_held<K: IntoKey>(&self, key: K) -> impl Future<Output = ()> + use<K> {
        let key = self.full(&named(key));
        let locks = self.clone();
        async move {
            if !until(|| locks.leases_of(&key).any(|lease| lease.is_held())).await {
                panic!("`{key}` should be held, but only these keys are: {:?}", locks.held_keys());
            }
        }
    }

    /// Returns the keys that the code under test holds now. The keys are sorted, and include their namespace. A key
    /// with several holders is listed once.
    #[must_use]
    pub fn held_keys(&self) -> Vec<String> {
        let leases = self.manager.hub().leases();
        let held = leases.iter().filter(|lease| lease.is_held());
        let mut keys: Vec<_> = held.flat_map(|lease| lease.claim().keys().map(ToString::to_string)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns all events of locks since this value was made, in order.
    ///
    /// # Examples
    /// ```
    /// use lock_core::LockErrorKind;
    /// use lock_core::testing::{Happened, TestLocks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let locks = TestLocks::new();
    /// let _elsewhere = locks.contend("order:7").await;
    /// assert!(locks.lock("order:7").try_acquire().await.unwrap().is_none());
    ///
    /// let [theirs, ours] = &locks.history()[..] else { panic!("two events") };
    /// assert!(theirs.elsewhere && theirs.what == Happened::Granted);
    /// assert_eq!((&*ours.key, ours.what), ("order:7", Happened::Refused(LockErrorKind::Contended)));
    /// # }
    /// ```
    #[must_use]
    pub fn history(&self) -> Vec<TestEvent> {
        self.history.events().clone()
    }

    /// Returns the number of times that `key` was granted to the code under test. Nested calls are not counted.
    #[must_use]
    #[track_caller]
    pub fn times_granted(&self, key: impl IntoKey) -> usize {
        self.history.times_granted(&self.full(&named(key)))
    }

    fn full(&self, key: &Key) -> Key {
        key.in_namespace(&self.manager.engine().namespace)
    }

    /// Returns the leases of the code under test on `key`, including lost ones.
    fn leases_of<'a>(&self, key: &'a Key) -> impl Iterator<Item = Arc<Lease>> + use<'a> {
        let leases = self.manager.hub().leases().into_iter();
        leases.filter(move |lease| lease.claim().keys().any(|held| held == key))
    }

    /// Returns the number of requests of the code under test that wait, in the local queue or in the queue of the
    /// store.
    fn waiting(&self, key: &Key) -> usize {
        let engine = self.manager.engine();
        let in_store = self.store.memory.waiting(key, engine.owners.mint());
        engine.local_queue.waiters(key).max(in_store)
    }
}

impl Deref for TestLocks {
    type Target = LockManager;

    fn deref(&self) -> &LockManager {
        &self.manager
    }
}

/// Makes the key from the text of the test, or panics.
#[track_caller]
fn named(key: impl IntoKey) -> Key {
    key.into_key().unwrap_or_else(|error: LockError| panic!("{error}"))
}
