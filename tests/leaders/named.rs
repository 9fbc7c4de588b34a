//! A worker with an owner name that dies, and is started again.

use std::time::Duration;

use lock_core::{LockErrorKind, LockEvent, LockGuard, LockManager, strategy};
use lock_tests::{PATIENCE, Worker, wait_until};
use tokio::task::JoinSet;

use super::WORKER;

/// Nobody waits for the end of such a lease.
const LONG: Duration = Duration::from_secs(60);
const NAME: &str = "import-3";

async fn connect(url: &str) -> LockManager {
    LockManager::connect(url).await.expect("the store takes locks")
}

/// Starts a process of the name that holds `k`.
async fn holder(url: &str) -> Worker {
    let ttl = LONG.as_millis().to_string();
    let arguments =
        ["hold", "--url", url, "--key", "k", "--ttl", &ttl, "--effect", "/dev/null", "--owner", NAME];
    let mut worker = Worker::start(WORKER, &arguments);
    worker.expect("HELD").await;
    worker
}

async fn token(guard: &LockGuard) -> u64 {
    guard.fencing_token().await.expect("it came with the grant").get()
}

/// A process of the name is stopped, and then killed. Others of the name wait for it until it is dead, and then one of
/// them holds, within a second.
pub(crate) async fn take_over(url: &str) {
    let locks = connect(url).await;
    let before = locks.lock("k").ttl(LONG).owner(NAME).acquire().await.expect("the key is free");
    let earlier = token(&before).await;
    before.release().await.expect("an answer");
    let mut worker = holder(url).await;
    worker.process().stop();
    // It is not dead, so it keeps the lock, and whoever waits is told.
    let mut events = locks.events();
    let request = || locks.lock("k").ttl(LONG).owner(NAME);
    let refused = request().strategy(strategy::retry().within(Duration::from_secs(1))).acquire().await;
    let refused = refused.expect_err("a process that is stopped is not dead");
    assert_eq!(refused.kind(), LockErrorKind::TimedOut);
    assert!(refused.to_string().contains("as import-3"), "{refused}");
    let told = tokio::time::timeout(PATIENCE, async {
        loop {
            match events.next().await {
                Some(LockEvent::SameOwner { alive, .. }) => return alive,
                Some(_) => {}
                None => panic!("the manager lives"),
            }
        }
    });
    assert!(told.await.expect("it was told"), "the process is there");
    worker.process().cont();
    worker.process().kill9();
    assert!(
        locks.lock("k").ttl(LONG).try_acquire().await.expect("an answer").is_none(),
        "it has a minute left"
    );
    // Several are started in its place. One of them holds, and no other takes it away again.
    let mut started = JoinSet::new();
    for _ in 0..4 {
        let url = url.to_owned();
        started.spawn(async move {
            let locks = connect(&url).await;
            let request = locks.lock("k").ttl(LONG).owner(NAME);
            let guard = request.strategy(strategy::retry().within(Duration::from_secs(2))).acquire().await;
            (locks, guard)
        });
    }
    let mut holding = Vec::new();
    let mut managers = Vec::new();
    for (locks, guard) in started.join_all().await {
        managers.push(locks);
        match guard {
            Ok(guard) => holding.push(guard),
            Err(error) => assert_eq!(error.kind(), LockErrorKind::TimedOut, "{error}"),
        }
    }
    assert_eq!(holding.len(), 1, "one of four holds");
    let guard = holding.remove(0);
    assert!(guard.is_held() && token(&guard).await > earlier);
    guard.release().await.expect("it is still its own");
    wait_until("the key is free", PATIENCE, async || {
        locks.lock("k").try_acquire().await.is_ok_and(|guard| guard.is_some())
    })
    .await;
}

/// A process of the name waits, and is killed: its place outlives it, and the lock goes to it. Whoever is started in
/// its stead finds that out, long before the lease is over. How soon, the tests of the clock that stands still say.
pub(crate) async fn take_over_a_place(url: &str) {
    let locks = connect(url).await;
    let held = locks.lock("k").ttl(LONG).acquire().await.expect("the key is free");
    let ttl = LONG.as_millis().to_string();
    let arguments = ["hold", "--url", url, "--key", "k", "--ttl", &ttl, "--effect", "/dev/null"];
    let mut worker = Worker::start(WORKER, &[&arguments[..], &["--owner", NAME, "--wait"]].concat());
    let waiting = async |places: usize| {
        wait_until("a place in the queue", PATIENCE, async || {
            let found = locks.inspect("k").await.expect("an answer");
            found.is_some_and(|found| found.waiting >= places)
        })
        .await;
    };
    waiting(1).await;
    worker.process().kill9();
    let started = connect(url).await;
    let mut events = started.events();
    let request = started.lock("k").ttl(LONG).owner(NAME).strategy(strategy::wait());
    let again = tokio::spawn(request.acquire());
    waiting(2).await;
    held.release().await.expect("an answer");
    let guard = again.await.expect("no panic").expect("it waits for ever");
    let mut taken_over = false;
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(50), events.next()).await {
        taken_over |= matches!(event, LockEvent::TakenOver { .. });
    }
    assert!(taken_over, "the lock went to the dead process first");
    guard.release().await.expect("an answer");
}
