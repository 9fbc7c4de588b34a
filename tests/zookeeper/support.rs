//! Helpers that several topics share.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::zookeeper::ZooKeeper;
use lock_core::backend::{Backend, Listener};
use lock_core::owner::Owner;
use lock_core::testkit::Claims;
use lock_core::{LockError, LockGuard, LockManager, LossReason, ManagerBuilder, strategy};
use lock_tests::{Bound, PATIENCE, ZooKeeperServers, until_locked_again, wait_until};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// The session timeout of these tests, and their shortest ttl.
pub(crate) const SESSION: Duration = Duration::from_secs(6);
/// A ttl that no test outlives.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Awaits `future`, which must complete within `bound`.
pub(crate) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(bound, future).await;
    outcome.unwrap_or_else(|_| panic!("{what} took longer than {bound:?}"))
}

/// Returns the URL of locks with sessions of [`SESSION`].
pub(crate) fn url(servers: &ZooKeeperServers) -> String {
    format!("{}?session_timeout=6s", servers.url("locks"))
}

/// Starts a server that allows sessions of [`patient_url`].
pub(crate) fn patient_servers() -> ZooKeeperServers {
    ZooKeeperServers::builder().tick(Duration::from_secs(1)).start()
}

/// Returns the URL of locks whose sessions survive even on a very busy machine, for tests in which no session ends.
pub(crate) fn patient_url(servers: &ZooKeeperServers) -> String {
    format!("{}?session_timeout=10s", servers.url("locks"))
}

pub(crate) async fn connect(url: &str) -> LockManager {
    LockManager::connect(url).await.expect("the servers take locks")
}

/// Connects with sessions that are longer than the default ttl, which the library would otherwise refuse.
pub(crate) async fn connect_for_long(url: &str) -> LockManager {
    let builder = ManagerBuilder::connect(url).await.expect("the servers take locks");
    builder.ttl(LONG).build().expect("a ttl as long as a session")
}

/// Returns the leader. A busy leader may answer late.
pub(crate) async fn leader(servers: &ZooKeeperServers) -> usize {
    let mut leader = None;
    wait_until("there is a leader", PATIENCE, async || {
        leader = servers.leader();
        leader.is_some()
    })
    .await;
    leader.expect("it was waited for")
}

/// Waits for the loss of a lock, and checks that the lock is not held any more after `limit`. On a busy machine, its
/// holder may be notified later.
pub(crate) async fn lost_within(guard: &LockGuard, since: &Bound, limit: Duration) -> LossReason {
    loop {
        // The order matters, because this task may be delayed between the two lines.
        let passed = since.elapsed();
        if !guard.is_held() {
            break;
        }
        assert!(passed < limit, "held after {passed:?}");
        tokio::time::sleep(ms(10)).await;
    }
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told")
}

/// Returns the reason why the servers serve no locks.
pub(crate) async fn refused(url: &str) -> LockError {
    let connecting = tokio::time::timeout(PATIENCE, LockManager::connect(url));
    let error = connecting.await.expect("in time").expect_err("refused");
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    error
}

/// Tries once to acquire `key`.
pub(crate) async fn try_once(locks: &LockManager, key: &str) -> Result<LockGuard, LockError> {
    locks.lock(key).ttl(LONG).strategy(strategy::fail_fast()).acquire().await
}

/// Tries until the servers grant `key`, then releases it.
pub(crate) async fn works_again(locks: &LockManager, key: &str) {
    until_locked_again(async || try_once(locks, key).await).await;
}

/// A manager that uses the store without the library, and that is notified when its sessions end.
#[derive(Debug)]
pub(crate) struct Listening(watch::Sender<usize>);

impl Listening {
    pub(crate) fn attach(store: &ZooKeeper, claims: &Claims) -> Arc<Self> {
        let listening = Arc::new(Self(watch::Sender::new(0)));
        let listener: Arc<dyn Listener> = Arc::clone(&listening) as _;
        store.attach(claims.owner().process(), Arc::downgrade(&listener), Some(&Handle::current()));
        listening
    }

    /// Waits until a session with grants has ended.
    pub(crate) async fn session_ended(&self) {
        let mut ended = self.0.subscribe();
        tokio::time::timeout(PATIENCE, ended.wait_for(|ended| *ended > 0))
            .await
            .expect("in time")
            .expect("it lives");
    }
}

impl Listener for Listening {
    fn granted(&self, _owner: Owner, _waiters: usize) {}

    fn contended(&self, _key: &str) {}

    fn opened(&self, _key: &str) {}

    fn reconnected(&self) {}

    fn session_ended(&self, _owners: &[Owner]) {
        self.0.send_modify(|ended| *ended += 1);
    }
}
