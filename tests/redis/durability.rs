//! Locks that count only if a replica has them. The replica works, hangs, is cut off or is promoted.

use std::sync::Arc;
use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::backend::{Ask, Attempt, Backend, Claim, Mode, Renew, Renewal};
use lock_core::key::Key;
use lock_core::owner::{Owner, OwnerRecord};
use lock_core::testkit::contract::{self, Subject};
use lock_core::{LockErrorKind, LockEvent, LockManager, strategy};
use lock_tests::{PATIENCE, RedisServer, Replica, wait_until};
use tokio::task::JoinSet;

use crate::support::{LONG, calls, connect, cycle, ms, try_once, within, works_again};

/// Starts a primary that refuses writes without a replica, and a replica that follows it.
pub(crate) async fn pair() -> (RedisServer, Replica) {
    let primary = RedisServer::builder().config("min-replicas-to-write", "1").start();
    let replica = Replica::of(&primary);
    wait_until("the replica has answered", PATIENCE, async || primary.info("min_slaves_good_slaves") == "1")
        .await;
    (primary, replica)
}

/// Returns a URL that allows the replica a second, because a busy machine is no fault.
fn durable(server: &RedisServer) -> String {
    format!("{}&timeout=3s", impatient(server))
}

/// Returns a URL that allows the replica a sixth of a second, for requests that must be refused.
fn impatient(server: &RedisServer) -> String {
    format!("{}?durability=replicas(1)", server.url())
}

#[tokio::test]
async fn whatever_is_granted_is_on_the_replica_by_then() {
    let (primary, replica) = pair().await;
    let locks = connect(&durable(&primary)).await;
    let replica = replica.server();
    for number in 0..20 {
        let key = format!("k{number}");
        let request = locks.lock(&key).ttl(LONG);
        let guard = match number % 5 {
            0 => request.acquire().await,
            1 => request.fencing(true).acquire().await,
            2 => locks.fair(&key).ttl(LONG).acquire().await,
            3 => locks.read(&key).ttl(LONG).acquire().await,
            _ => locks.semaphore(&key, 2).ttl(LONG).acquire().await,
        };
        let guard = guard.expect("the key is free");
        assert!(replica.keys().contains(&key), "{key} of {:?}", replica.keys());
        let token = guard.fencing_token().await.expect("the lock is held");
        let last: String = replica.get(&["GET", &format!("{{{key}}}:f")]);
        assert!(last.starts_with(&format!("{token} ")), "{token}, and the replica has {last}");
        guard.release().await.expect("an answer");
    }
    let guard = locks.all(["a", "b"]).ttl(LONG).acquire().await.expect("the keys are free");
    assert!(["a", "b"].iter().all(|key| replica.keys().contains(&(*key).to_owned())));
    guard.extend(LONG * 2).await.expect("the lock is held");
    assert!(replica.get::<u64>(&["PTTL", "a"]) > 60_000);
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn the_token_of_a_local_turn_is_on_the_replica_too() {
    let (primary, replica) = pair().await;
    let locks = connect(&durable(&primary)).await;
    let guard = try_once(&locks, "k").await.expect("the key is free");
    let first = guard.fencing_token().await.expect("the lock is held");
    let waits = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.lock("k").ttl(LONG).strategy(strategy::wait()).acquire().await })
    };
    // If no other request of this process were queued, the key would be released on the server.
    wait_until("it is in line", PATIENCE, async || {
        let turned_away = locks.lock("k").max_waiters(1).wait(LONG).acquire();
        matches!(turned_away.await, Err(error) if error.kind() == LockErrorKind::Overloaded)
    })
    .await;
    let sets = calls(&primary, "set");
    guard.release().await.expect("an answer");
    let next = within(PATIENCE, "the turn", waits).await.expect("no panic").expect("granted");
    assert_eq!(calls(&primary, "set"), sets, "the same grant");
    let second = next.fencing_token().await.expect("the lock is held");
    let last: String = replica.server().get(&["GET", "{k}:f"]);
    assert!(second > first && last.starts_with(&format!("{second} ")), "{first}, {second}, {last}");
}

#[tokio::test]
async fn a_lock_that_no_replica_has_is_not_acquired_and_the_key_is_free() {
    let (primary, replica) = pair().await;
    let (locks, others) = (connect(&impatient(&primary)).await, connect(&primary.url()).await);
    let patient = connect(&durable(&primary)).await;
    let guard = try_once(&patient, "held").await.expect("the key is free");
    replica.server().stop();
    for key in ["plain", "fenced"] {
        let request = locks.lock(key).ttl(LONG).fencing(key == "fenced").strategy(strategy::fail_fast());
        let error = request.acquire().await.expect_err("no replica has it");
        assert!(error.is_unavailable() && error.is_temporary(), "{error}");
        assert!(error.to_string().contains("0 of 1 replica acknowledged it within 167ms"), "{error}");
        assert!(!error.to_string().contains("may have been executed"), "{error}");
        let held = primary.get::<bool>(&["EXISTS", key]);
        assert!(!held, "{key} was given back before the caller was told");
    }
    // The token of a confirmed lock still needs its own confirmation.
    let error = guard.fencing_token().await.expect_err("no replica has it");
    assert!(error.to_string().contains("0 of 1 replica"), "{error}");
    assert!(guard.is_held(), "the lock is not lost by that");
    // A request without durability gets a lock that only the primary has.
    cycle(&others, "plain").await;
    replica.server().cont();
    works_again(&locks, "plain").await;
    guard.fencing_token().await.expect("the same token, and the replica has it");
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn a_replica_that_was_cut_off_does_not_count() {
    let (primary, replica) = pair().await;
    let locks = connect(&impatient(&primary)).await;
    replica.detach(&primary);
    let error = try_once(&locks, "k").await.expect_err("the primary refuses");
    assert!(error.to_string().contains("min-replicas-to-write"), "{error}");
    // The refusal also covers a setting that was switched off after the connection was made.
    primary.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    let error = try_once(&locks, "k").await.expect_err("no replica has it");
    assert!(error.to_string().contains("0 of 1 replica"), "{error}");
    assert_eq!(primary.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_granted_by_push_is_not_handed_out_before_a_replica_has_it() {
    let (primary, replica) = pair().await;
    let (holder, waiter) = (connect(&durable(&primary)).await, connect(&impatient(&primary)).await);
    let guard = holder.fair("k").ttl(LONG).acquire().await.expect("the key is free");
    let waits = tokio::spawn(async move {
        waiter.fair("k").ttl(LONG).strategy(strategy::wait()).acquire().await.expect("it waits for ever")
    });
    wait_until("it waits", PATIENCE, async || primary.keys().contains(&"{k}:q".to_owned())).await;
    replica.server().stop();
    let before = calls(&primary, "wait");
    guard.release().await.expect("a release needs nobody");
    // The waiter was notified. It waits for the copies of its grant, does not get them, and tries again.
    wait_until("it was told", PATIENCE, async || calls(&primary, "wait") > before + 1).await;
    assert!(!waits.is_finished(), "granted, and no replica has it");
    replica.server().cont();
    let guard = within(PATIENCE, "the wait", waits).await.expect("no panic");
    assert!(replica.server().keys().contains(&"k".to_owned()));
    guard.release().await.expect("an answer");
}

#[tokio::test]
async fn many_at_once_share_their_confirmations() {
    let (primary, _replica) = pair().await;
    let locks = connect(&durable(&primary)).await;
    cycle(&locks, "first").await;
    primary.command(&["CONFIG", "RESETSTAT"]);
    let mut tasks = JoinSet::new();
    for number in 0..64 {
        let locks = locks.clone();
        tasks.spawn(async move { cycle(&locks, &format!("k{number}")).await });
    }
    tasks.join_all().await;
    let waits = calls(&primary, "wait");
    assert!((1..=16).contains(&waits), "{waits} for 64 cycles");
    assert_eq!(calls(&primary, "set"), 64);
}

#[tokio::test]
async fn a_lock_is_on_the_replica_that_takes_over_and_without_durability_it_need_not_be() {
    let (mut primary, replica) = pair().await;
    let locks = connect(&durable(&primary)).await;
    let guard = try_once(&locks, "durable").await.expect("the key is free");
    let token = guard.fencing_token().await.expect("the lock is held");
    let others = connect(&primary.url()).await;
    primary.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    replica.detach(&primary);
    let lost = try_once(&others, "plain").await.expect("the key is free");
    primary.kill9();
    replica.promote();

    let next = connect(&replica.server().url()).await;
    let held = next.lock("durable").try_acquire().await.expect("an answer");
    assert!(held.is_none(), "it is held there too");
    let again = next.lock("plain").try_acquire().await.expect("an answer");
    assert!(again.is_some() && lost.is_held(), "two holders: the reason for all this");
    replica.server().command(&["DEL", "durable"]);
    let second = next.lock("durable").fencing(true).acquire().await.expect("the key is free");
    assert!(second.fencing_token().await.expect("a token") > token);
}

#[tokio::test]
async fn a_lease_is_longer_when_a_replica_knows_it_and_not_before() {
    let (primary, replica) = pair().await;
    let locks = connect(&durable(&primary)).await;
    let ttl = ms(2_400);
    let guard = locks.lock("k").ttl(ttl).acquire().await.expect("the key is free");
    tokio::time::sleep(ttl + ttl / 2).await;
    assert!(guard.is_held(), "it is renewed");
    // An interruption shorter than a lease does no harm.
    replica.server().stop();
    tokio::time::sleep(ttl / 3 + ms(100)).await;
    replica.server().cont();
    tokio::time::sleep(ttl).await;
    assert!(guard.is_held(), "it is renewed again");
    // After a longer interruption the holder is notified, although the primary still renews the lease.
    replica.server().stop();
    within(PATIENCE, "the loss", guard.lost()).await;
    assert!(primary.get::<i64>(&["PTTL", "k"]) > 0, "the primary had a longer lease");
}

#[tokio::test]
async fn a_connection_that_breaks_confirms_nothing() {
    let (primary, replica) = pair().await;
    let locks = connect(&durable(&primary)).await;
    cycle(&locks, "first").await;
    replica.server().stop();
    // The grant is confirmed in the same round trip, and after a script.
    for fencing in [false, true] {
        let request = locks.lock("k").ttl(LONG).fencing(fencing).strategy(strategy::fail_fast());
        let trying = tokio::spawn(async move { request.acquire().await });
        wait_until("it waits", PATIENCE, async || primary.info("blocked_clients") == "1").await;
        assert!(primary.get::<bool>(&["EXISTS", "k"]));
        assert!(primary.cut_clients() > 0);
        let error = trying.await.expect("no panic").expect_err("nobody confirmed it");
        assert!(error.is_unavailable() && error.is_temporary(), "{error}");
        let free = async || !primary.get::<bool>(&["EXISTS", "k"]);
        wait_until("the key is free again", PATIENCE, free).await;
    }
}

#[tokio::test]
async fn a_long_confirmation_is_not_taken_for_a_server_that_hangs() {
    let (primary, replica) = pair().await;
    let locks = connect(&format!("{}&timeout=6s", impatient(&primary))).await;
    let client = || primary.info("total_connections_received");
    cycle(&locks, "k").await;
    replica.server().stop();
    let before: u64 = client().parse().expect("a number");
    let error = try_once(&locks, "k").await.expect_err("no replica has it");
    assert!(error.to_string().contains("0 of 1 replica acknowledged it within 2s"), "{error}");
    // Each of the two checks has one connection.
    assert_eq!(client().parse::<u64>().expect("a number"), before + 1, "it was not dialled again");
}

#[tokio::test]
async fn a_server_that_cannot_keep_the_promise_is_refused() {
    let (primary, _replica) = pair().await;
    let refused = async |url: &str| LockManager::connect(url).await.expect_err(url);
    let error = refused(&format!("{}?durability=replicas(2)", primary.url())).await;
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert!(error.to_string().contains("`min-replicas-to-write` of 2 or more"), "{error}");
    assert!(error.to_string().contains("it is 1"), "{error}");

    primary.command(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", "-config"]);
    let url = format!("{}?timeout=3s&durability=replicas(1)", primary.url_for("app", "pw"));
    let error = refused(&url).await;
    assert!(error.to_string().contains("`min_replicas=assumed`") && !error.is_temporary(), "{error}");
    cycle(&connect(&format!("{url}&min_replicas=assumed")).await, "k").await;

    primary.command(&["ACL", "SETUSER", "app", "-wait"]);
    let error = refused(&format!("{url}&min_replicas=assumed")).await;
    assert!(error.to_string().contains("lacks a permission"), "{error}");

    let version = primary.info("redis_version");
    let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
    let aof = format!("{}?durability=aof(1,0)", primary.url());
    let error = refused(&aof).await;
    if (parts.next(), parts.next()) < (Some(7), Some(2)) {
        assert!(error.to_string().contains("needs Redis 7.2, and the server is"), "{error}");
    } else {
        assert!(error.to_string().contains("append-only file"), "{error}");
        primary.command(&["CONFIG", "SET", "appendonly", "yes"]);
        primary.command(&["CONFIG", "SET", "appendfsync", "always"]);
        // Redis counts a write as part of the append-only file only after the first part of the file exists.
        wait_until("the append-only file is there", PATIENCE, async || {
            primary.info("aof_rewrite_in_progress") == "0"
                && primary.info("aof_rewrite_scheduled") == "0"
                && !primary.info("aof_current_size").is_empty()
        })
        .await;
        cycle(&connect(&aof).await, "k").await;
    }
}

#[tokio::test]
async fn a_quorum_has_no_use_for_it() {
    let error = LockManager::connect("redlock://a,b,c?durability=replicas(1)").await.expect_err("no use");
    assert!(error.to_string().contains("no option of the redlock URL"), "{error}");
    let server = RedisServer::start();
    let voter = Voter::connect(&durable(&server), VoterOptions::default()).await;
    let error = voter.expect_err("no use");
    assert_eq!(error.kind(), LockErrorKind::Unsupported);
    assert!(error.to_string().contains("a voter of a quorum has no `durability`"), "{error}");
}

fn claim(key: &str, mode: Mode) -> Claim {
    let token = format!("{:048x}", 0xfeed);
    let owner = Owner::from_token(&token).expect("48 digits");
    let record =
        OwnerRecord::from_value(&format!("{token} host=h pid=1 service=s since=1")).expect("a record");
    let mut claim = Claim::new(Key::new(key).expect("a key"), owner, LONG, record);
    claim.mode = mode;
    claim
}

/// WAIT covers the last write of its connection, and newer servers count only replicated commands as writes. But the
/// grant may have been written by another connection, and its lease may be of any length.
#[tokio::test]
async fn a_grant_asked_for_again_is_replicated_again() {
    let (primary, _replica) = pair().await;
    let redis = Redis::connect(&primary.url()).await.expect("the server takes locks");
    let offset = || primary.info("master_repl_offset").parse::<u64>().expect("a number");
    for (key, mode) in [("x", Mode::Exclusive), ("s", Mode::Shared)] {
        let claim = claim(key, mode);
        assert!(matches!(redis.acquire(&claim, Ask::Try).await, Ok(Attempt::Granted(_))));
        let mut again = claim.clone();
        again.ttl = Duration::from_secs(1);
        let before = offset();
        assert!(matches!(redis.acquire(&again, Ask::Try).await, Ok(Attempt::Granted(_))));
        let between = offset();
        assert!(between > before, "asked again, {mode:?}");
        let renewals = redis.renew(&[Renew { claim: &again, ttl: again.ttl }]).await;
        assert!(matches!(renewals.as_slice(), [Renewal::Renewed { .. }]), "{renewals:?}");
        assert!(offset() > between, "renewed, {mode:?}");
        assert!(primary.get::<u64>(&["PTTL", key]) > 50_000, "never shortened");
    }
}

#[tokio::test]
async fn the_contract_is_kept_with_copies() {
    let (primary, _replica) = pair().await;
    let redis = Redis::connect(&durable(&primary)).await.expect("the server takes locks");
    let redis = Arc::new(redis);
    // The replica has a sixth of a short lease to confirm. A waiter keeps its place for two seconds, and some cases
    // also wait for the end of one lease.
    let report =
        contract::run(|| std::future::ready(Subject::from_dyn(redis.clone()).with_short_lease(ms(1_000))))
            .await;
    report.assert_complete(crate::contract::NOT_APPLICABLE);
}

#[tokio::test]
async fn what_the_server_throws_away_while_locks_are_in_use_is_told() {
    let server =
        RedisServer::builder().config("maxmemory", "3mb").config("maxmemory-policy", "allkeys-lru").start();
    let locks = connect(&server.url()).await;
    let mut events = locks.events();
    cycle(&locks, "k").await;
    let pad = "x".repeat(10_000);
    for number in 0..400 {
        server.command(&["SET", &format!("pad{number}"), &pad]);
    }
    let told = async {
        loop {
            if let Some(LockEvent::StoreEvicted { keys, .. }) = events.next().await {
                break keys;
            }
        }
    };
    // The check runs every five seconds.
    let keys = within(PATIENCE, "the look", told).await;
    // The number is read after the event, because the server may evict more keys meanwhile.
    let thrown: u64 = server.info("evicted_keys").parse().expect("a number");
    assert!((1..=thrown).contains(&keys), "{keys} of {thrown}");
}
