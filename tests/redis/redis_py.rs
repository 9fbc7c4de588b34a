//! The `Lock` of redis-py, a Python library, on the same keys.

use std::process::Command;

use lock_core::{LockErrorKind, Released};
use lock_tests::{Bound, PATIENCE, RedisServer, Worker, wait_until};

use crate::support::{LONG, manager, ms, try_once};

const SCRIPT: &str = include_str!("redis_py.py");
const INSTALL: &str = "no python3 with the package `redis` was found; run: apt-get install -y python3-redis";

/// A Python process with redis-py.
struct Python(Worker);

impl Python {
    fn start(server: &RedisServer) -> Self {
        // The first python3 on the path may not be the one for which the distribution installs packages. Without `-I`,
        // Python would import the folder `redis` of these tests.
        let has_redis = |python: &&&str| {
            Command::new(python)
                .args(["-I", "-c", "import redis"])
                .output()
                .is_ok_and(|ran| ran.status.success())
        };
        let python = ["python3", "/usr/bin/python3"].iter().find(has_redis).expect(INSTALL);
        Self(Worker::start(python, &["-I", "-c", SCRIPT, &server.port().to_string()]))
    }

    async fn ask(&mut self, call: &str) -> String {
        self.0.tell(call);
        self.0.expect("").await
    }
}

#[tokio::test]
async fn a_lock_of_redis_py_excludes_ours_until_it_is_released() {
    let server = RedisServer::start();
    let (locks, mut python) = (manager(&server).await, Python::start(&server));
    assert_eq!(python.ask("acquire job 60 0").await, "True");
    let error = try_once(&locks, "job").await.expect_err("it is held");
    assert_eq!(error.kind(), LockErrorKind::Contended);
    for request in
        [locks.fair("job"), locks.read("job"), locks.semaphore("job", 2), locks.all(["job", "other"])]
    {
        // A semaphore is refused permanently, because the key is in use as another kind of lock.
        assert!(!matches!(request.ttl(LONG).try_acquire().await, Ok(Some(_))));
    }
    let waiting = tokio::spawn(locks.lock("job").ttl(LONG).wait(PATIENCE).acquire());
    let queue = "{job}:q".to_owned();
    wait_until("ours waits", PATIENCE, async || server.keys().contains(&queue)).await;
    assert_eq!(python.ask("owned job").await, "True", "the attempts left it alone");
    assert_eq!(python.ask("release job").await, "None");
    waiting.await.expect("no panic").expect("it is free").release().await.expect("an answer");
}

#[tokio::test]
async fn ours_excludes_a_lock_of_redis_py_until_it_is_released() {
    let server = RedisServer::start();
    let (locks, mut python) = (manager(&server).await, Python::start(&server));
    for request in [locks.lock("job"), locks.fair("job"), locks.read("job"), locks.semaphore("job", 2)] {
        let guard = request.ttl(LONG).acquire().await.expect("it is free");
        assert_eq!(python.ask("acquire job 60 0.05").await, "False");
        assert_eq!(python.ask("release job").await, "LockError", "it has nothing to release");
        assert!(guard.is_held());
        python.0.tell("acquire job 60 20");
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        assert_eq!(python.0.expect("").await, "True", "it waited for it");
        assert_eq!(python.ask("release job").await, "None");
    }
}

/// Each client may believe that it still has a lock that was deleted or has expired, while the other client holds it.
#[tokio::test]
async fn neither_ends_or_prolongs_the_lock_of_the_other() {
    let server = RedisServer::start();
    let (locks, mut python) = (manager(&server).await, Python::start(&server));
    for way in ["release", "drop", "extend"] {
        let guard = try_once(&locks, "job").await.expect("it is free");
        server.command(&["DEL", "job"]);
        assert_eq!(python.ask("acquire job 60 0").await, "True");
        match way {
            "release" => assert_eq!(guard.release().await.expect("an answer"), Released::Taken),
            "drop" => drop(guard),
            _ => assert!(guard.extend(10 * LONG).await.expect_err("it is not ours any more").is_lost()),
        }
        locks_are_settled(&locks).await;
        assert_eq!(python.ask("owned job").await, "True", "{way}");
        assert!(server.get::<i64>(&["PTTL", "job"]) <= 60_000, "{way}");
        assert_eq!(python.ask("release job").await, "None");
    }
    assert_eq!(python.ask("acquire job 0.05 0").await, "True");
    let guard = locks.lock("job").ttl(LONG).wait(PATIENCE).acquire().await.expect("it runs out");
    for call in ["extend job 600", "release job"] {
        assert_eq!(python.ask(call).await, "LockNotOwnedError", "{call}");
    }
    assert!(server.get::<i64>(&["PTTL", "job"]) <= 60_000);
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

/// Waits until the background has released all dropped locks.
async fn locks_are_settled(locks: &lock_core::LockManager) {
    let other = try_once(locks, "another job").await.expect("it is free");
    drop(other);
    wait_until("the last release has arrived", PATIENCE, async || {
        locks.inspect("another job").await.is_ok_and(|found| found.is_none())
    })
    .await;
}

#[tokio::test]
async fn work_under_both_kinds_of_locks_is_done_one_at_a_time() {
    const TIMES: i64 = 60;
    let server = RedisServer::start();
    let (locks, mut python) = (manager(&server).await, Python::start(&server));
    python.0.tell(&format!("count job {TIMES}"));
    let (mut ours, bound) = (0, Bound::new(PATIENCE));
    while python.0.unread() == 0 {
        bound.check("the work in Python is done");
        let guard = locks.lock("job").ttl(LONG).wait(PATIENCE).acquire().await.expect("in time");
        let seen: Option<i64> = server.get(&["GET", "counter"]);
        tokio::time::sleep(ms(fastrand::u64(0..3))).await;
        server.command(&["SET", "counter", &(seen.unwrap_or(0) + 1).to_string()]);
        ours += 1;
        guard.release().await.expect("an answer");
        tokio::time::sleep(ms(fastrand::u64(0..20))).await;
    }
    assert_eq!(server.get::<i64>(&["GET", "counter"]), TIMES + ours);
    assert!(ours > 1, "{ours} of ours between those of the other: this shows nothing");
}
