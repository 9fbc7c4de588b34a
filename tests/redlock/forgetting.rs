//! A, B and C grant a lock, C forgets it, and C, D and E are asked: two holders with plain Redlock, never with the
//! gate.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{LockError, LockGuard};
use lock_tests::{Bound, Clock, PATIENCE, RedisBuilder, RedisServer, Replica};

use crate::party::{Gate, Party};
use crate::support::{log_of, ms, new_cluster};

/// Long enough for every fault, and for a client that connects after it.
const TTL: Duration = ms(2_000);

/// How a server loses its memory of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server is killed and restarted without data.
    Killed,
    Flushed,
    /// The server is killed and restarted with a log that lacks its end.
    LogCut,
    /// The server is killed and restarted with a snapshot from before the lock.
    OldSnapshot,
    /// A replica that has not received the lock replaces the server.
    Replaced,
    /// The clock of the server is set past the end of the lease.
    ClockSet,
}

/// The five servers; the third will forget the lock.
struct Scene {
    servers: Vec<RedisServer>,
    fault: Fault,
    clock: Option<Arc<Clock>>,
    replica: Option<Replica>,
    log: u64,
}

const WHO: usize = 2;

impl Scene {
    async fn new(fault: Fault) -> Self {
        let clock = (fault == Fault::ClockSet).then(|| Arc::new(Clock::new()));
        let start = |number| {
            let builder = RedisServer::builder();
            if number == WHO {
                Self::prepared(builder, fault, clock.as_ref()).start()
            } else {
                builder.start()
            }
        };
        let servers: Vec<RedisServer> = (0..5).map(start).collect();
        new_cluster(&servers.iter().collect::<Vec<_>>(), TTL).await;
        let mut scene = Self { servers, fault, clock, replica: None, log: 0 };
        scene.before_the_lock();
        scene
    }

    fn prepared(builder: RedisBuilder, fault: Fault, clock: Option<&Arc<Clock>>) -> RedisBuilder {
        match (fault, clock) {
            // Written at once, so that the test chooses the cut, as a power cut leaves the file with `everysec`.
            (Fault::LogCut, _) => builder.config("appendonly", "yes").config("appendfsync", "always"),
            (_, Some(clock)) => builder.clock(clock),
            _ => builder,
        }
    }

    fn before_the_lock(&mut self) {
        let server = &self.servers[WHO];
        match self.fault {
            Fault::LogCut => self.log = std::fs::metadata(log_of(server)).expect("a log").len(),
            Fault::OldSnapshot => {
                server.command(&["SAVE"]);
            }
            Fault::Replaced => {
                let replica = Replica::of(server);
                replica.detach(server);
                self.replica = Some(replica);
            }
            Fault::Killed | Fault::Flushed | Fault::ClockSet => {}
        }
    }

    fn forget(&mut self) {
        let server = &mut self.servers[WHO];
        match self.fault {
            Fault::Killed | Fault::OldSnapshot => server.restart(),
            Fault::Flushed => {
                server.command(&["FLUSHALL"]);
            }
            Fault::LogCut => {
                server.kill9();
                let log = std::fs::File::options().write(true).open(log_of(server)).expect("a log");
                log.set_len(self.log).expect("cut");
                server.restart();
            }
            Fault::Replaced => {
                server.kill9();
                self.replica.as_ref().expect("made before").promote();
            }
            Fault::ClockSet => self.clock.as_ref().expect("made before").ahead(Duration::from_secs(31)),
        }
        assert!(!self.third().keys().contains(&"k".to_owned()), "it did not forget");
    }

    /// Returns the server that has the third vote now.
    fn third(&self) -> &RedisServer {
        self.replica.as_ref().map_or(&self.servers[WHO], Replica::server)
    }

    fn now(&self) -> Vec<&RedisServer> {
        let mut servers: Vec<&RedisServer> = self.servers.iter().collect();
        servers[WHO] = self.third();
        servers
    }
}

async fn ask(party: &Party) -> Result<Option<LockGuard>, LockError> {
    party.locks.lock("k").ttl(TTL).renew(false).try_acquire().await
}

/// Returns whether a second client gets the lock while the first holds it.
async fn two_holders(fault: Fault, gate: Gate) -> bool {
    let mut scene = Scene::new(fault).await;
    let first = Party::of(&scene.servers.iter().collect::<Vec<_>>(), gate, TTL).await;
    let old = Party::of(&scene.servers.iter().collect::<Vec<_>>(), gate, TTL).await;
    first.refused_by(&[3, 4]).await;
    let guard = ask(&first).await.expect("three of five answer").expect("nobody else is there");
    scene.forget();
    let fresh = Party::of(&scene.now(), gate, TTL).await;
    for party in [&old, &fresh] {
        party.refused_by(&[0, 1]).await;
    }
    assert!(guard.is_held(), "the machine is too slow for this test");
    while guard.is_held() {
        for party in [&old, &fresh] {
            if matches!(ask(party).await, Ok(Some(_))) && guard.is_held() {
                return true;
            }
        }
        tokio::time::sleep(ms(5)).await;
    }
    // The lock is not blocked for ever: with the end of the quarantine three of five vote again.
    let bound = Bound::new(PATIENCE);
    while !matches!(ask(&fresh).await, Ok(Some(_))) {
        bound.check("the lock can be taken again");
        tokio::time::sleep(ms(20)).await;
    }
    false
}

async fn check(fault: Fault) {
    assert!(
        two_holders(fault, Gate::Off).await,
        "{fault:?} does no harm without the gate: this test shows nothing"
    );
    assert!(!two_holders(fault, Gate::On).await, "two holders after {fault:?}");
}

#[tokio::test]
async fn a_server_that_was_killed() {
    check(Fault::Killed).await;
}

#[tokio::test]
async fn a_server_that_was_flushed() {
    check(Fault::Flushed).await;
}

#[tokio::test]
async fn a_server_whose_log_lost_its_end() {
    check(Fault::LogCut).await;
}

#[tokio::test]
async fn a_server_with_an_old_snapshot() {
    check(Fault::OldSnapshot).await;
}

#[tokio::test]
async fn a_replica_in_the_place_of_a_server() {
    check(Fault::Replaced).await;
}

#[tokio::test]
async fn a_server_whose_clock_was_set() {
    check(Fault::ClockSet).await;
}
