//! The `Lock` of kazoo, a Python library, on the same keys.

use std::process::Command;

use lock_core::{LockErrorKind, Released};
use lock_tests::{PATIENCE, Worker, ZooKeeperServers, wait_until};

use crate::support::{LONG, connect, patient_servers, patient_url, try_once};

const SCRIPT: &str = include_str!("kazoo.py");
const INSTALL: &str = "no python3 with the package `kazoo` was found; run: apt-get install -y python3-kazoo";

/// A Python process with kazoo.
struct Python(Worker);

impl Python {
    fn start(servers: &ZooKeeperServers) -> Self {
        let has_kazoo = |python: &&&str| {
            let ran = Command::new(python).args(["-I", "-c", "import kazoo"]).output();
            ran.is_ok_and(|ran| ran.status.success())
        };
        let python = ["python3", "/usr/bin/python3"].iter().find(has_kazoo).expect(INSTALL);
        Self(Worker::start(python, &["-I", "-c", SCRIPT, &servers.hosts()]))
    }

    async fn ask(&mut self, call: &str) -> String {
        self.0.tell(call);
        self.0.expect("").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_kazoo_excludes_ours_until_it_is_released() {
    let servers = patient_servers();
    let (locks, mut python) = (connect(&patient_url(&servers)).await, Python::start(&servers));
    for _ in 0..5 {
        assert_eq!(python.ask("acquire job 20").await, "True");
        let error = try_once(&locks, "job").await.expect_err("it is held");
        assert_eq!(error.kind(), LockErrorKind::Contended);
        for request in [locks.fair("job"), locks.read("job"), locks.write("job")] {
            assert!(request.ttl(LONG).try_acquire().await.expect("an answer").is_none());
        }
        let waiting = tokio::spawn(locks.lock("job").ttl(LONG).wait(PATIENCE).acquire());
        wait_until("ours waits", PATIENCE, async || servers.nodes("locks/job") == 2).await;
        assert!(!waiting.is_finished(), "granted beside a holder");
        python.ask("release job").await;
        waiting.await.expect("no panic").expect("it is free").release().await.expect("an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_excludes_a_lock_of_kazoo_until_it_is_released() {
    let servers = patient_servers();
    let (locks, mut python) = (connect(&patient_url(&servers)).await, Python::start(&servers));
    for request in [locks.lock("job"), locks.fair("job"), locks.write("job")] {
        let guard = request.ttl(LONG).acquire().await.expect("it is free");
        assert_eq!(python.ask("try job").await, "False");
        assert_eq!(python.ask("acquire job 0.2").await, "LockTimeout");
        python.0.tell("acquire job 20");
        wait_until("kazoo waits", PATIENCE, async || servers.nodes("locks/job") == 2).await;
        assert!(guard.is_held());
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        assert_eq!(python.0.expect("").await, "True", "it waited for it");
        python.ask("release job").await;
    }
}
