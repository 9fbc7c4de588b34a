//! A server that may have forgotten a lease does not vote until that lease has ended. These tests use a single voter.

use lock_core::LockErrorKind;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::backend::{Attempt, Released, Renewal};
use lock_tests::{Bound, PATIENCE, RedisServer, Replica, wait_until};

use crate::support::{Client, MAX_TTL, assert_quarantined, ms, new_cluster, quarantine, voting_server};

#[tokio::test]
async fn a_new_server_votes_after_the_longest_lease() {
    let server = RedisServer::start();
    let started = Bound::new(PATIENCE);
    let client = Client::of(&server, MAX_TTL).await;
    let error = client.refusal("k", MAX_TTL).await;
    assert_quarantined(&error, MAX_TTL);
    assert_eq!(server.keys(), ["lock:voter"], "a refusal leaves nothing behind");
    client.votes_again("k", MAX_TTL).await;
    assert!(started.elapsed() >= quarantine(MAX_TTL), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_new_cluster_votes_at_once() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let claim = client.take("k", MAX_TTL).await;
    assert!(matches!(client.ask(&claim).await, Ok(Attempt::Granted(_))), "it is idempotent");
    assert!(client.lock("k", MAX_TTL).await.expect("an answer").is_none());
    assert!(matches!(client.renew(&claim).await, Renewal::Renewed { .. }));
    assert_eq!(client.release(&claim).await, Released::Released);
    let both = client.claim_all(["a", "b"], MAX_TTL);
    assert!(matches!(client.ask(&both).await, Ok(Attempt::Granted(_))));
    assert!(client.lock("b", MAX_TTL).await.expect("an answer").is_none());
    assert_eq!(client.release(&both).await, Released::Released);
}

/// An operator cannot declare servers with locks to be new. The declaration changes no server.
#[tokio::test]
async fn a_cluster_with_locks_is_not_new() {
    let (one, two) = (voting_server(MAX_TTL).await, RedisServer::start());
    let client = Client::of(&one, MAX_TTL).await;
    let claim = client.take("k", MAX_TTL).await;
    let urls = [two.url(), one.url()];
    let outcome =
        Voter::bootstrap_new_cluster(urls.iter().map(String::as_str), VoterOptions::new(MAX_TTL)).await;
    let error = outcome.expect_err("one has a key");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("1 keys"), "{error}");
    assert!(two.keys().is_empty());
    client.release(&claim).await;
    new_cluster(&[&one, &two], MAX_TTL).await;
}

/// After each of these events, a server has forgotten its locks and still runs.
#[tokio::test]
async fn whoever_lost_its_data_is_in_quarantine_for_old_and_new_clients() {
    for fault in [&["FLUSHALL"][..], &["FLUSHDB", "ASYNC"], &["DEL", "lock:voter"]] {
        let server = voting_server(MAX_TTL).await;
        let old = Client::of(&server, MAX_TTL).await;
        old.take("k", MAX_TTL).await;
        server.command(fault);
        assert_quarantined(&old.refusal("other", MAX_TTL).await, MAX_TTL);
        let new = Client::of(&server, MAX_TTL).await;
        assert_quarantined(&new.refusal("other", MAX_TTL).await, MAX_TTL);
        new.votes_again("other", MAX_TTL).await;
    }
}

#[tokio::test]
async fn a_restart_is_a_quarantine_whatever_was_kept() {
    for persistence in ["no", "yes"] {
        let mut server =
            RedisServer::builder().config("appendonly", persistence).config("appendfsync", "no").start();
        new_cluster(&[&server], MAX_TTL).await;
        let old = Client::of(&server, MAX_TTL).await;
        let claim = old.take("k", MAX_TTL).await;
        server.restart();
        let kept = server.keys().contains(&"k".to_owned());
        assert_eq!(kept, persistence == "yes");
        let new = Client::of(&server, MAX_TTL).await;
        assert_quarantined(&new.refusal("other", MAX_TTL).await, MAX_TTL);
        // This client was connected before. It gets the refusal once it is connected again.
        wait_until("a refusal", PATIENCE, async || {
            let error = old.refusal("other", MAX_TTL).await;
            error.to_string().contains("is in quarantine")
        })
        .await;
        if kept {
            assert!(matches!(old.renew(&claim).await, Renewal::Renewed { .. }), "what is there can be kept");
        }
        old.release(&claim).await;
        new.votes_again("other", MAX_TTL).await;
    }
}

/// The scripts are lost but the data stays, so nothing was forgotten.
#[tokio::test]
async fn a_script_flush_is_no_quarantine() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    for _ in 0..3 {
        server.command(&["SCRIPT", "FLUSH"]);
        let claim = client.take("k", MAX_TTL).await;
        assert_eq!(client.release(&claim).await, Released::Released);
        server.command(&["SCRIPT", "FLUSH"]);
        let both = client.claim_all(["a", "b"], MAX_TTL);
        assert!(matches!(client.ask(&both).await, Ok(Attempt::Granted(_))));
        client.release(&both).await;
    }
}

#[tokio::test]
async fn the_gated_scripts_come_with_their_bootstrap_and_nothing_else_makes_a_key() {
    let server = voting_server(MAX_TTL).await;
    let mut recorder = server.record();
    let client = Client::of(&server, MAX_TTL).await;
    let greeting = recorder.take();
    let claim = client.take("k", MAX_TTL).await;
    let both = client.claim_all(["a", "b"], MAX_TTL);
    assert!(matches!(client.ask(&both).await, Ok(Attempt::Granted(_))));
    client.release(&claim).await;
    server.command(&["SCRIPT", "FLUSH"]);
    let claim = client.take("k", MAX_TTL).await;
    client.release(&claim).await;
    let requests = recorder.take();
    assert!(requests.iter().all(|command| command.name != "SET"), "{requests:?}");
    for commands in [greeting, requests] {
        let mut loads = 0;
        let mut inside = false;
        for command in &commands {
            match command.name.as_str() {
                "MULTI" => inside = true,
                "EXEC" => inside = false,
                "SCRIPT" if command.arguments.iter().any(|text| text.contains("lock:voter")) => {
                    assert!(inside, "loaded without a bootstrap");
                    loads += 1;
                }
                _ => {}
            }
        }
        assert_eq!(loads, 2, "one key, several keys: {commands:?}");
    }
}

/// A renewal only extends existing keys. A missing key returns only through the gate.
#[tokio::test]
async fn a_renewal_brings_no_key_back() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let claim = client.take("k", MAX_TTL).await;
    let both = client.claim_all(["a", "b"], MAX_TTL);
    assert!(matches!(client.ask(&both).await, Ok(Attempt::Granted(_))));
    server.command(&["FLUSHALL"]);
    assert!(matches!(client.renew(&claim).await, Renewal::NotOwned));
    assert!(matches!(client.renew(&both).await, Renewal::NotOwned));
    for again in [&claim, &both] {
        let error = client.ask(again).await.expect_err("it may have forgotten others too");
        assert_quarantined(&error, MAX_TTL);
    }
    assert_eq!(server.keys(), ["lock:voter"]);
}

/// The snapshot is from before the lock. Its marker is of the same server, but of an earlier incarnation.
#[tokio::test]
async fn an_old_snapshot_is_a_quarantine() {
    let mut server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    server.command(&["SAVE"]);
    client.take("k", MAX_TTL).await;
    server.restart();
    assert_eq!(server.keys(), ["lock:voter"], "the marker came back and the lock did not");
    assert_quarantined(&Client::of(&server, MAX_TTL).await.refusal("k", MAX_TTL).await, MAX_TTL);
}

/// The log lacks its last second, as after a power cut with `appendfsync everysec`.
#[tokio::test]
async fn a_log_without_its_tail_is_a_quarantine() {
    // The log is written at once, so that the test can choose the cut.
    let mut server = RedisServer::builder().config("appendonly", "yes").config("appendfsync", "no").start();
    new_cluster(&[&server], MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let log = crate::support::log_of(&server);
    let length = std::fs::metadata(&log).expect("a log").len();
    client.take("k", MAX_TTL).await;
    server.kill9();
    assert!(std::fs::metadata(&log).expect("a log").len() > length, "the lock is not in the log");
    std::fs::File::options().write(true).open(&log).and_then(|file| file.set_len(length)).expect("cut");
    server.restart();
    assert_eq!(server.keys(), ["lock:voter"], "the marker came back and the lock did not");
    assert_quarantined(&Client::of(&server, MAX_TTL).await.refusal("k", MAX_TTL).await, MAX_TTL);
}

/// A replica has the marker of its primary, but not its scripts.
#[tokio::test]
async fn a_promoted_replica_is_in_quarantine() {
    let primary = voting_server(MAX_TTL).await;
    let client = Client::of(&primary, MAX_TTL).await;
    let replica = Replica::of(&primary);
    replica.detach(&primary);
    client.take("k", MAX_TTL).await;
    replica.promote();
    assert_eq!(replica.server().keys(), ["lock:voter"], "the marker came and the lock did not");
    let client = Client::of(replica.server(), MAX_TTL).await;
    assert_quarantined(&client.refusal("k", MAX_TTL).await, MAX_TTL);
}

/// A running server with its scripts loads the data of another server, so the marker is of another incarnation.
#[tokio::test]
async fn a_server_that_took_the_data_of_another_is_in_quarantine() {
    let (one, other) = (voting_server(MAX_TTL).await, voting_server(MAX_TTL).await);
    let client = Client::of(&one, MAX_TTL).await;
    Client::of(&other, MAX_TTL).await;
    client.take("k", MAX_TTL).await;
    one.command(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]);
    wait_until("it follows the other", PATIENCE, async || one.info("master_link_status") == "up").await;
    one.command(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(one.keys(), ["lock:voter"], "the other's marker is there and the lock is not");
    // The refusal arrives over the old connection or a new one, because no bootstrap has verified these data.
    assert_quarantined(&client.refusal("k", MAX_TTL).await, MAX_TTL);
    assert_quarantined(&Client::of(&one, MAX_TTL).await.refusal("k", MAX_TTL).await, MAX_TTL);
}

#[tokio::test]
async fn evicted_keys_are_a_quarantine() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    client.take("k", MAX_TTL).await;
    // Redis evicts keys with an expiry. The marker has none.
    server.command(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let _ = server.try_command(&["SET", "another", "x"]);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(server.keys(), ["lock:voter"], "the lock was evicted and the marker was not");
    wait_until("the next look", PATIENCE, async || {
        client.lock("other", ms(10)).await.is_err_and(|error| error.to_string().contains("is in quarantine"))
    })
    .await;
    assert_quarantined(&Client::of(&server, MAX_TTL).await.refusal("k", MAX_TTL).await, MAX_TTL);
    client.votes_again("k", MAX_TTL).await;
}
