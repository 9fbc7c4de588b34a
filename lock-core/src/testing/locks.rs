//! A manager for tests, and everything that can happen to its locks.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::fault::StoreFault;
use super::history::{History, TestEvent};
use super::holder::TestHolder;
use super::store::{Switches, TestStore};
use super::until::until;
use crate::backend::Backend;
use crate::error::{LockError, LossReason};
use crate::key::{IntoKey, Key};
use crate::kind::Kind;
use crate::lease::Lease;
use crate::manager::LockManager;
use crate::strategy;

/// A lease that no test lives to see the end of.
const LONG: Duration = Duration::from_secs(3_600);

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
    pub(super) store: TestStore,
    pub(super) manager: LockManager,
    /// Of another process.
    pub(super) other: LockManager,
    pub(super) history: History,
}

impl TestLocks {
    /// The manager of the code under test.
    #[must_use]
    pub fn manager(&self) -> &LockManager {
        &self.manager
    }

    /// Has another process hold `key` from now on, as one that excludes everybody else.
    ///
    /// # Panics
    /// When somebody holds it already ([`steal`](Self::steal) takes it away), or waits for it in order.
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn contend<K: IntoKey>(&self, key: K) -> impl Future<Output = TestHolder> + use<K> {
        self.contend_as(key, Kind::Reentrant)
    }

    /// As [`contend`](Self::contend), with a lock of `kind`: code that asks for a semaphore has to find semaphores. One
    /// holder has one permit.
    ///
    /// # Panics
    /// When such a lock is not to be had at once.
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

    /// Takes `key` away from whoever of the code under test holds it: at once its body is dropped, or its guard says
    /// [`Lost`](crate::LockErrorKind::Lost), for the reason [`Taken`](LossReason::Taken). The key is free then. Of several
    /// keys, all are lost.
    ///
    /// # Panics
    /// When nobody of the code under test holds it: see [`until_held`](Self::until_held).
    #[track_caller]
    pub fn lose(&self, key: impl IntoKey) {
        let key = self.full(&named(key));
        let lost = self.holds_on(&key).filter(|lease| lease.lose(LossReason::Taken)).inspect(|lease| {
            // Told before anybody else can have it, as a real store would be by the lease.
            let _ = self.store.memory.release_now(&lease.claim, None);
        });
        assert!(lost.count() > 0, "nobody holds `{key}`, so nobody can lose it");
    }

    /// As [`lose`](Self::lose), and another process holds the key at once, with a larger fencing token.
    ///
    /// # Panics
    /// As [`lose`](Self::lose), and when the key is not to be had then, because others share it, wait for it in order,
    /// or are faster on another thread.
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

    /// Takes the store down for the code under test: every call fails from now on, renewals and releases too, until
    /// [`store_up`](Self::store_up). A lock that is held is lost when its lease is over. Another process, that of a
    /// [`TestHolder`], has a way to the store on which nothing fails.
    pub fn store_down(&self) {
        self.store.switches().down = true;
    }

    /// Ends every failure and delay, and forgets how the store was to fail.
    pub fn store_up(&self) {
        *self.store.switches() = Switches::default();
    }

    /// Has the next `times` attempts to acquire fail, of whatever key. An attempt is one question to the store: a strategy
    /// that waits asks again, so fewer than its time allows do no harm.
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

    /// Says how calls fail from now on, when they are to fail. Default, and after [`store_up`](Self::store_up):
    /// [`StoreFault::Unreachable`].
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
        let key = self.full(&named(key));
        let locks = self.clone();
        async move {
            if !until(|| locks.waiting(&key) >= count).await {
                panic!("{count} should wait for `{key}`, and {} do", locks.waiting(&key));
            }
        }
    }

    /// Returns when the code under test holds `key`.
    ///
    /// # Panics
    /// As [`until_waiting`](Self::until_waiting).
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[track_caller]
    pub fn until_held<K: IntoKey>(&self, key: K) -> impl Future<Output = ()> + use<K> {
        let key = self.full(&named(key));
        let locks = self.clone();
        async move {
            if !until(|| locks.holds_on(&key).any(|lease| lease.is_held())).await {
                panic!("`{key}` should be held, and of these keys each is: {:?}", locks.held_keys());
            }
        }
    }

    /// The keys that the code under test holds now, sorted, with their namespace. A key that several share is there once.
    #[must_use]
    pub fn held_keys(&self) -> Vec<String> {
        let leases = self.manager.hub().leases();
        let held = leases.iter().filter(|lease| lease.is_held());
        let mut keys: Vec<_> = held.flat_map(|lease| lease.claim.keys().map(ToString::to_string)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Everything that happened to locks since this value was made, in order.
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

    /// How often `key` was granted to the code under test; nested calls are not counted.
    #[must_use]
    #[track_caller]
    pub fn times_granted(&self, key: impl IntoKey) -> usize {
        self.history.times_granted(&self.full(&named(key)))
    }

    fn full(&self, key: &Key) -> Key {
        key.in_namespace(&self.manager.engine().namespace)
    }

    /// The holds of the code under test on `key`, lost ones included.
    fn holds_on<'a>(&self, key: &'a Key) -> impl Iterator<Item = Arc<Lease>> + use<'a> {
        let leases = self.manager.hub().leases().into_iter();
        leases.filter(move |lease| lease.claim.keys().any(|held| held == key))
    }

    /// How many requests of the code under test wait: those that take turns in the process, or stand in the store's queue.
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

/// A key that the test has spelled out.
#[track_caller]
fn named(key: impl IntoKey) -> Key {
    key.into_key().unwrap_or_else(|error: LockError| panic!("{error}"))
}
