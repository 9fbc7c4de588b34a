//! A rolling restart. The servers of a quorum are killed and restarted without data in sequence, while a lock is held
//! on all of them.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, FencingToken, Released, Renew, Renewal};
use lock_core::owner::Owner;
use lock_core::{LockError, LockErrorKind, LockGuard, LockManager, LossReason, ManagerBuilder, Result};
use lock_tests::{Bound, PATIENCE, RedisServer, wait_until};

use crate::party::{Gate, Party};
use crate::support::{MAX_TTL, ms, new_cluster, quarantine};

const KEY: &str = "job";

async fn servers(count: usize) -> Vec<RedisServer> {
    let servers: Vec<RedisServer> = (0..count).map(|_| RedisServer::start()).collect();
    new_cluster(&servers.iter().collect::<Vec<_>>(), MAX_TTL).await;
    servers
}

/// Connects a manager whose default lease is the longest lease that the servers allow.
async fn connect(servers: &[RedisServer]) -> LockManager {
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redlock://{}/?max_ttl={}ms", hosts.join(","), MAX_TTL.as_millis());
    let builder = ManagerBuilder::connect(&url).await.expect("a majority is up");
    builder.ttl(MAX_TTL).build().expect("a ttl that it can hold")
}

/// Returns the owner of the key on a server.
fn owner_on(server: &RedisServer) -> Option<String> {
    let value: Option<String> = server.get(&["GET", KEY]);
    value.map(|value| value.split(' ').next().unwrap_or_default().to_owned())
}

/// A client that tries to get the lock.
#[derive(Debug, Default)]
struct Contender {
    asked: AtomicUsize,
    refused: AtomicUsize,
}

impl Contender {
    /// Tries once. Returns the guard if the lock was granted.
    async fn ask(&self, locks: &LockManager) -> Option<LockGuard> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match locks.lock(KEY).try_acquire().await {
            Ok(Some(guard)) => Some(guard),
            Ok(None) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(error) => {
                assert!(error.is_temporary(), "{error}");
                None
            }
        }
    }

    /// Retries without a pause until the lock is granted.
    async fn insist(&self, locks: &LockManager) -> LockGuard {
        loop {
            if let Some(guard) = self.ask(locks).await {
                return guard;
            }
        }
    }
}

/// The next server is restarted once the lock is on the last one again. The gate allows this after the quarantine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_held_over_a_rolling_restart_and_is_whole_again() {
    let mut servers = servers(5).await;
    let (here, there) = (connect(&servers).await, connect(&servers).await);
    let guard = here.lock(KEY).acquire().await.expect("nobody else is there");
    let owner = owner_on(&servers[0]);
    let has_it = |server: &RedisServer| owner.is_some() && owner_on(server) == owner;
    wait_until("it is on every server", PATIENCE, async || servers.iter().all(has_it)).await;
    let contender = Contender::default();
    let restarts = async {
        for number in 0..servers.len() {
            let bound = Bound::new(PATIENCE);
            servers[number].restart();
            assert!(!has_it(&servers[number]), "it came back with its data: this test shows nothing");
            wait_until("it is healed", PATIENCE, async || has_it(&servers[number])).await;
            assert!(bound.elapsed() >= quarantine(MAX_TTL), "healed past the gate: {:?}", bound.elapsed());
            guard.check().expect("it is renewed by the others");
            // A process that starts now has no history with any server.
            assert!(contender.ask(&connect(&servers).await).await.is_none(), "a second holder");
        }
    };
    // Several tries are needed, so that the key is usually acquired on a server that returned without it.
    let insisting = async {
        tokio::select! {
            guard = contender.insist(&there) => guard,
            guard = contender.insist(&there) => guard,
            guard = contender.insist(&there) => guard,
        }
    };
    tokio::select! {
        () = restarts => {}
        _guard = insisting => panic!("a second holder"),
    }
    assert!(servers.iter().all(has_it), "it is not whole again");
    let (asked, refused) = (contender.asked.into_inner(), contender.refused.into_inner());
    assert!(refused > servers.len() * 10 && refused * 2 > asked, "{refused} refusals of {asked}");
    guard.release().await.expect("an answer");
    wait_until("it is gone", PATIENCE, async || !servers.iter().any(has_it)).await;
    let again = there.lock(KEY).try_acquire().await.expect("an answer");
    assert!(again.is_some(), "it was given back");
}

/// The control: voters that grant a lock once, and never again after they have lost it.
#[derive(Debug)]
struct Unhealed {
    voter: Voter,
    known: Mutex<HashSet<Owner>>,
}

impl Backend for Unhealed {
    fn capability(&self) -> Capability {
        self.voter.capability()
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt> {
        if !self.known.lock().expect("no panic").insert(claim.owner) {
            let error = LockError::new(LockErrorKind::Unavailable, "it has been here before");
            return Err(error.nothing_taken());
        }
        self.voter.acquire(claim, Ask::Try).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.voter.renew(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.voter.release(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        self.voter.fence(claim).await
    }
}

#[tokio::test]
async fn without_healing_a_rolling_restart_ends_the_lock() {
    let mut servers = servers(3).await;
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let options = VoterOptions::new(MAX_TTL);
    let voters = Voter::connect_all(urls.iter().map(String::as_str), options).await.expect("all are up");
    let unhealed = |voter| Unhealed { voter, known: Mutex::default() };
    let quorum = Quorum::new(voters.into_iter().map(unhealed).collect()).expect("three");
    let locks = LockManager::builder(quorum).ttl(MAX_TTL).build().expect("a ttl that it can hold");
    let guard = locks.lock(KEY).acquire().await.expect("nobody else is there");
    wait_until("it is on every server", PATIENCE, async || servers.iter().all(|s| owner_on(s).is_some()))
        .await;
    servers[0].restart();
    // Two leases later the other servers still have the lock, and the first server does not have it again.
    tokio::time::sleep(MAX_TTL * 2).await;
    guard.check().expect("two of three have it");
    assert_eq!(owner_on(&servers[0]), None);
    servers[1].restart();
    let lost = tokio::time::timeout(PATIENCE, guard.lost()).await.expect("told");
    assert_eq!(lost, LossReason::Taken);
}

/// Restarts a majority at once, between two renewals. Returns whether a second client gets the lock while the holder
/// has it, or `None` if the machine was too slow to decide.
async fn hasty_restart(gate: Gate) -> Option<bool> {
    let mut servers = servers(5).await;
    let all: Vec<&RedisServer> = servers.iter().collect();
    let (holder, other) = (Party::of(&all, gate, MAX_TTL).await, Party::of(&all, gate, MAX_TTL).await);
    let guard = holder.locks.lock(KEY).renew(false).acquire().await.expect("nobody else is there");
    servers[..3].iter_mut().for_each(RedisServer::restart);
    let contender = Contender::default();
    if !guard.is_held() {
        return None;
    }
    while guard.is_held() {
        if contender.ask(&other.locks).await.is_some() && guard.is_held() {
            return Some(true);
        }
        tokio::time::sleep(ms(2)).await;
    }
    Some(false)
}

#[tokio::test]
async fn a_hasty_restart_costs_the_lock_and_lets_nobody_else_in() {
    // The whole scene must happen within one lease, so a busy machine may need another attempt.
    let (mut harmed, mut spared) = (false, false);
    for _ in 0..5 {
        harmed = harmed || hasty_restart(Gate::Off).await == Some(true);
        let with_the_gate = hasty_restart(Gate::On).await;
        assert_ne!(with_the_gate, Some(true), "a second holder");
        spared = spared || with_the_gate == Some(false);
        if harmed && spared {
            return;
        }
    }
    panic!("harm without the gate: {harmed}; fast enough with it: {spared}; this test shows nothing");
}
