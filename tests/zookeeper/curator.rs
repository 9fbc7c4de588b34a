//! The locks of Curator, a Java library, on the same keys.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockGuard, LockManager, Released};
use lock_tests::{PATIENCE, Worker, ZooKeeperServers, wait_until};
use tokio::task::JoinHandle;

use crate::WORKER;
use crate::support::{LONG, SESSION, connect, ms, patient_servers, patient_url, try_once, url};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/zookeeper/Curator.java");
/// The archives on Debian. Each archive names its dependencies.
const JARS: [&str; 4] = [
    "/usr/share/java/curator-recipes.jar",
    "/usr/share/java/curator-framework.jar",
    "/usr/share/java/curator-client.jar",
    "/usr/share/java/slf4j-nop.jar",
];
const NO_CURATOR: &str = "Curator is not installed; run: apt-get install -y libcurator-recipes-java";
const NO_COMPILER: &str = "javac is not installed; run: apt-get install -y default-jdk-headless";
/// The longest time of a start. The program is compiled first, on a machine that may be busy.
const START_WITHIN: Duration = Duration::from_secs(90);

/// A Java process with Curator, whose sessions time out after 2 s.
pub(crate) struct Java(Worker);

impl Java {
    pub(crate) async fn start(servers: &ZooKeeperServers) -> Self {
        assert!(JARS.iter().all(|jar| Path::new(jar).exists()), "{NO_CURATOR}");
        assert!(Command::new("javac").arg("-version").output().is_ok(), "{NO_COMPILER}");
        let quick = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let (jars, hosts) = (JARS.join(":"), servers.hosts());
        let arguments = [&quick[..], &["-cp", &jars, PROGRAM, &hosts]].concat();
        let mut worker = Worker::start("java", &arguments);
        wait_until("Curator has started", START_WITHIN, async || {
            worker.unread() > 0 || worker.process().exited().is_some()
        })
        .await;
        worker.expect("ready").await;
        Self(worker)
    }

    /// Begins a call of the thread `who`.
    pub(crate) fn tell(&mut self, who: &str, call: &str) {
        self.0.tell(&format!("{who} {call}"));
    }

    /// Waits for the answer of the thread `who`. No other thread may answer before it.
    pub(crate) async fn answer(&mut self, who: &str) -> String {
        self.0.expect(who).await
    }

    pub(crate) async fn ask(&mut self, who: &str, call: &str) -> String {
        self.tell(who, call);
        self.answer(who).await
    }
}

/// Returns the URL of a manager whose exclusive locks are those of Curator's read-write lock.
fn read_write(servers: &ZooKeeperServers) -> String {
    format!("{}&curator=read-write", patient_url(servers))
}

async fn places(servers: &ZooKeeperServers, key: &str, count: usize) {
    let directory = format!("locks/{key}");
    wait_until("all have a place", PATIENCE, async || servers.nodes(&directory) == count).await;
}

fn waiting(locks: &LockManager, key: &str) -> JoinHandle<Result<LockGuard, LockError>> {
    tokio::spawn(locks.fair(key).ttl(LONG).wait(PATIENCE).acquire())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutex_of_curator_excludes_ours_until_it_is_released() {
    let servers = patient_servers();
    let (locks, mut java) = (connect(&patient_url(&servers)).await, Java::start(&servers).await);
    for _ in 0..5 {
        assert_eq!(java.ask("a", "acquire mutex job 20").await, "true");
        let error = try_once(&locks, "job").await.expect_err("it is held");
        assert_eq!(error.kind(), LockErrorKind::Contended);
        for request in [locks.fair("job"), locks.read("job"), locks.write("job")] {
            assert!(request.ttl(LONG).try_acquire().await.expect("an answer").is_none());
        }
        let waiting = tokio::spawn(locks.lock("job").ttl(LONG).wait(PATIENCE).acquire());
        places(&servers, "job", 2).await;
        assert!(!waiting.is_finished(), "granted beside a holder");
        assert_eq!(java.ask("a", "release").await, "released");
        waiting.await.expect("no panic").expect("it is free").release().await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_excludes_a_mutex_of_curator_until_it_is_released() {
    let servers = patient_servers();
    let (locks, mut java) = (connect(&patient_url(&servers)).await, Java::start(&servers).await);
    for request in [locks.lock("job"), locks.fair("job"), locks.write("job")] {
        let guard = request.ttl(LONG).acquire().await.expect("it is free");
        for seconds in ["0", "0.2"] {
            assert_eq!(java.ask("a", &format!("acquire mutex job {seconds}")).await, "false");
        }
        java.tell("a", "acquire mutex job 20");
        places(&servers, "job", 2).await;
        assert!(guard.is_held());
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        assert_eq!(java.answer("a").await, "true", "it waited for it");
        assert_eq!(java.ask("a", "release").await, "released");
    }
}

/// The waiters of both libraries are in one queue, and are served in its order.
#[tokio::test(flavor = "multi_thread")]
async fn ours_and_curators_are_served_in_one_order() {
    let servers = patient_servers();
    let (locks, mut java) = (connect(&patient_url(&servers)).await, Java::start(&servers).await);
    let first = try_once(&locks, "job").await.expect("it is free");
    let mut ours = Vec::new();
    for (number, who) in ["a", "b", "c"].into_iter().enumerate() {
        java.tell(who, "acquire mutex job 20");
        places(&servers, "job", 2 * number + 2).await;
        ours.push(waiting(&locks, "job"));
        places(&servers, "job", 2 * number + 3).await;
    }
    first.release().await.expect("an answer");
    for (who, next) in ["a", "b", "c"].into_iter().zip(ours) {
        // The next answer of any thread is the answer of this one.
        assert_eq!(java.answer(who).await, "true");
        assert!(!next.is_finished(), "overtook {who}");
        assert_eq!(java.ask(who, "release").await, "released");
        let guard = next.await.expect("no panic").expect("its turn");
        // No other thread of Curator has answered meanwhile.
        assert_eq!(java.ask("late", "acquire mutex job 0").await, "false");
        guard.release().await.expect("an answer");
    }
    places(&servers, "job", 0).await;
}

/// The readers of both libraries share a key, and the writers of both exclude them.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_write_lock_of_curator_and_ours_are_one() {
    let servers = patient_servers();
    let (locks, mut java) = (connect(&read_write(&servers)).await, Java::start(&servers).await);
    let refused = async |request: lock_core::LockRequest| {
        assert!(request.ttl(LONG).try_acquire().await.expect("an answer").is_none());
    };
    // First, Curator holds the key.
    assert_eq!(java.ask("a", "acquire read job 20").await, "true");
    let reader = locks.read("job").ttl(LONG).acquire().await.expect("beside a reader");
    refused(locks.write("job")).await;
    assert_eq!(java.ask("b", "acquire write job 0.2").await, "false");
    assert_eq!(java.ask("a", "release").await, "released");
    assert_eq!(java.ask("b", "acquire write job 0.2").await, "false", "ours still reads");
    java.tell("b", "acquire write job 20");
    places(&servers, "job", 2).await;
    reader.release().await.expect("an answer");
    assert_eq!(java.answer("b").await, "true");
    for request in [locks.read("job"), locks.write("job"), locks.lock("job")] {
        refused(request).await;
    }
    assert_eq!(java.ask("b", "release").await, "released");
    // Then this library holds the key, as a writer that becomes a reader.
    let writer = locks.write("job").ttl(LONG).acquire().await.expect("it is free");
    assert_eq!(java.ask("a", "acquire read job 0.2").await, "false");
    java.tell("a", "acquire read job 20");
    places(&servers, "job", 2).await;
    let reader = writer.downgrade().await.expect("a reader");
    assert_eq!(java.answer("a").await, "true", "beside a reader");
    assert_eq!(java.ask("b", "acquire write job 0.2").await, "false");
    reader.release().await.expect("an answer");
    assert_eq!(java.ask("a", "release").await, "released");
}

/// A killed process frees the key when its session expires, and not before.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_frees_the_key_with_its_session() {
    let servers = ZooKeeperServers::start();
    let (locks, mut java) = (connect(&url(&servers)).await, Java::start(&servers).await);
    assert_eq!(java.ask("a", "acquire mutex job 20").await, "true");
    // A waiter that dies with the holder does not delay other waiters.
    java.tell("b", "acquire mutex job 20");
    places(&servers, "job", 2).await;
    let next = waiting(&locks, "job");
    places(&servers, "job", 3).await;
    java.0.kill9().await;
    let soon = SESSION / 4;
    tokio::time::sleep(soon).await;
    assert!(!next.is_finished(), "granted {soon:?} after the kill, within the session");
    let late = tokio::time::timeout(PATIENCE, next).await.expect("the session is over");
    late.expect("no panic").expect("it is free").release().await.expect("an answer");

    // The same in the other direction: our process is killed, and Curator waits.
    let mut java = Java::start(&servers).await;
    let hold = ["hold", "--url", &url(&servers), "--key", "job", "--ttl", "6000", "--effect", "/dev/null"];
    let mut worker = Worker::start(WORKER, &hold);
    worker.expect("HELD").await;
    java.tell("a", "acquire mutex job 20");
    places(&servers, "job", 2).await;
    worker.kill9().await;
    let early = tokio::time::timeout(ms(500), java.answer("a")).await;
    assert!(early.is_err(), "granted within the session: {early:?}");
    assert_eq!(java.answer("a").await, "true");
    assert_eq!(java.ask("a", "release").await, "released");
}
