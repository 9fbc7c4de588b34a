//! A, B and C grant a lock, C forgets it, and a second client requests it from C, D and E. With plain Redlock there are
//! two holders, with the gate never.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{LockError, LockGuard};
use lock_tests::{Bound, Clock, PATIENCE, RedisBuilder, RedisServer, Replica};

use crate::party::{Gate, Party};
use crate::support::{log_of, ms, new_cluster};

/// A lease that is long enough for every fault, and for a client that connects after it.
const TTL: Duration = ms(2_000);

/// The way in which a server loses its memory of the lock.
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

/// The five servers. The third will forget the lock.
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
            // The log is written at once, so that the test can choose the cut. It then looks like a file with
            // `everysec` after a power cut.
            (Fault::LogCut, _) => builder.config("appendonly", "yes").config("appendfsync", "no"),
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

    /// Returns the server that currently has the third vote.
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

/// Returns whether a second client gets the lock while the first holds it, or `None` if the machine was too slow to
/// decide.
async fn two_holders(fault: Fault, gate: Gate) -> Option<bool> {
    let mut scene = Scene::new(fault).await;
    let first = Party::of(&scene.servers.iter().collect::<Vec<_>>(), gate, TTL).await;
    let old = Party::of(&scene.servers.iter().collect::<Vec<_>>(), gate, TTL).await;
    first.refused_by(&[3, 4]).await;
    let Ok(Some(guard)) = ask(&first).await else { return None };
    scene.forget();
    let fresh = Party::of(&scene.now(), gate, TTL).await;
    for party in [&old, &fresh] {
        party.refused_by(&[0, 1]).await;
    }
    if !guard.is_held() {
        return None;
    }
    while guard.is_held() {
        for party in [&old, &fresh] {
            if matches!(ask(party).await, Ok(Some(_))) && guard.is_held() {
                return Some(true);
            }
        }
        tokio::time::sleep(ms(5)).await;
    }
    // The lock is not blocked for ever. After the quarantine, three of five servers vote again.
    let bound = Bound::new(PATIENCE);
    while !matches!(ask(&fresh).await, Ok(Some(_))) {
        bound.check("the lock can be taken again");
        tokio::time::sleep(ms(20)).await;
    }
    Some(false)
}

async fn check(fault: Fault) {
    // The whole scene must happen within one lease, so a busy machine may need another attempt.
    let (mut harmed, mut spared) = (false, false);
    for _ in 0..5 {
        harmed = harmed || two_holders(fault, Gate::Off).await == Some(true);
        let with_the_gate = two_holders(fault, Gate::On).await;
        assert_ne!(with_the_gate, Some(true), "two holders after {fault:?}");
        spared = spared || with_the_gate == Some(false);
        if harmed && spared {
            return;
        }
    }
    panic!(
        "{fault:?}: harm without the gate: {harmed}; fast enough with it: {spared}; this test shows nothing"
    );
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
