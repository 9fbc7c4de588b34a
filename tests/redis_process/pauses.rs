//! A process that is stopped for longer than its lease.

use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{Directory, RedisServer, Worker};

use crate::WORKER;

#[tokio::test]
async fn a_holder_that_stood_still_does_nothing_more_when_it_goes_on() {
    let server = RedisServer::start();
    let locks = LockManager::connect(&server.url()).await.expect("the server takes locks");
    for _ in 0..3 {
        let directory = Directory::new();
        // The body writes to this file in its next round, if the file exists.
        let effect = directory.path().join("effect");
        let file = effect.to_str().expect("a path of UTF-8");
        let arguments = ["hold", "--url", &server.url(), "--key", "k", "--ttl", "300", "--effect", file];
        let mut worker = Worker::start(WORKER, &arguments);
        worker.expect("HELD").await;
        worker.process().stop();
        let guard = locks.lock("k").wait(Duration::from_secs(5)).acquire().await.expect("the lease runs out");
        std::fs::write(&effect, "").expect("a file");
        worker.process().cont();
        let reason = worker.expect("LOST").await;
        assert!(reason.contains("Expired"), "{reason}");
        assert_eq!(std::fs::read_to_string(&effect).expect("a file"), "", "it worked on without its lock");
        worker.finish().await;
        guard.check().expect("the late one took nothing away");
        guard.release().await.expect("an answer");
    }
}
