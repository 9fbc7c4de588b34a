//! Locks of several keys at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::backend::zookeeper::ZooKeeper;
use lock_core::backend::{Ask, Attempt, Backend, Queue};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use lock_core::{LockErrorKind, LockGuard, LockManager, LossReason, Released, strategy};
use lock_tests::{Bound, Flow, PATIENCE, Proxy, ZooKeeperServers, wait_until};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::curator::Java;
use crate::support::{LONG, Listening, connect, ms, patient_servers, patient_url, try_once, url};

const KEYS: [&str; 3] = ["a", "b", "c"];

async fn all(locks: &LockManager, keys: &[&str]) -> LockGuard {
    let request = locks.all(keys.iter().copied()).ttl(LONG).wait(PATIENCE);
    request.acquire().await.expect("all keys")
}

fn nodes(servers: &ZooKeeperServers) -> [usize; 3] {
    KEYS.map(|key| servers.nodes(&format!("locks/{key}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_does_not_get_all_keys_leaves_nothing() {
    let servers = ZooKeeperServers::start();
    let (locks, other) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    all(&locks, &KEYS).await.release().await.expect("an answer");
    let client = zookeeper_client::Client::connect(&servers.hosts()).await.expect("a client");
    let changed = async |key: &str| {
        let stat = client.check_stat(&format!("/locks/{key}")).await.expect("an answer");
        stat.expect("it is there").pzxid
    };
    for held in KEYS {
        let guard = try_once(&other, held).await.expect("free");
        let before = [changed("a").await, changed("b").await, changed("c").await];
        for _ in 0..3 {
            let tried = locks.all(KEYS).ttl(LONG).strategy(strategy::fail_fast()).acquire().await;
            let error = tried.expect_err("one is held");
            assert_eq!(error.kind(), LockErrorKind::Contended);
            assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
            assert_eq!(nodes(&servers).iter().sum::<usize>(), 1);
        }
        let after = [changed("a").await, changed("b").await, changed("c").await];
        assert_eq!(after, before, "a try was in the way of others");
        guard.release().await.expect("an answer");
    }
    let guard = all(&locks, &KEYS).await;
    assert_eq!(nodes(&servers), [1; 3]);
    for key in KEYS {
        assert_eq!(try_once(&other, key).await.expect_err("held").kind(), LockErrorKind::Contended);
        let shown = other.inspect(key).await.expect("an answer").expect("it is held");
        assert_eq!((shown.holding, shown.waiting), (1, 0));
    }
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    assert_eq!(nodes(&servers), [0; 3]);
}

/// A client that waits for several keys is queued for one of them, and holds the earlier keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_one_key_after_the_other() {
    let servers = patient_servers();
    let (locks, other) = (connect(&patient_url(&servers)).await, connect(&patient_url(&servers)).await);
    let [b, c] = ["b", "c"].map(|key| try_once(&other, key));
    let (b, c) = (b.await.expect("free"), c.await.expect("free"));
    let waiting = tokio::spawn(locks.all(KEYS).ttl(LONG).wait(PATIENCE).acquire());
    wait_until("it waits for b", PATIENCE, async || nodes(&servers) == [1, 2, 1]).await;
    let before = [b.fencing_token().await.expect("a token"), c.fencing_token().await.expect("a token")];
    b.release().await.expect("an answer");
    wait_until("it waits for c", PATIENCE, async || nodes(&servers) == [1, 1, 2]).await;
    assert!(!waiting.is_finished(), "granted without c");
    c.release().await.expect("an answer");
    let guard = waiting.await.expect("no panic").expect("all keys");
    let token = guard.fencing_token().await.expect("a token");
    assert!(before.iter().all(|before| *before < token), "{token:?} after {before:?}");
    assert_eq!(nodes(&servers), [1; 3]);
    guard.release().await.expect("an answer");
    for key in KEYS {
        let next = try_once(&other, key).await.expect("free");
        assert!(next.fencing_token().await.expect("a token") > token, "{key}");
        next.release().await.expect("an answer");
    }
}

/// The requests are for sets of keys in every order and for single keys. Curator acquires its keys in sequence. No
/// client waits for ever, and no two clients hold a key at once.
#[tokio::test(flavor = "multi_thread")]
async fn overlapping_sets_are_all_served() {
    const ROUNDS: usize = 8;
    let servers = patient_servers();
    let mut java = Java::start(&servers).await;
    let taken: Arc<[AtomicBool; 3]> = Arc::default();
    let mut tasks = JoinSet::new();
    for set in [&["a", "b"][..], &["c", "b"], &["c", "a"], &["b", "a", "c"], &["b"], &["a"]] {
        let (locks, taken) = (connect(&patient_url(&servers)).await, Arc::clone(&taken));
        let used = move |to: bool| {
            for key in set {
                let at = KEYS.iter().position(|known| known == key).expect("a known key");
                assert_ne!(taken[at].swap(to, Ordering::SeqCst), to, "two have {key}");
            }
        };
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = all(&locks, set).await;
                used(true);
                tokio::time::sleep(ms(2)).await;
                used(false);
                guard.release().await.expect("an answer");
            }
        });
    }
    for _ in 0..ROUNDS {
        assert_eq!(java.ask("j", "acquire multi a,b,c 20").await, "true");
        let set = [0, 1, 2].map(|at: usize| taken[at].swap(true, Ordering::SeqCst));
        assert_eq!(set, [false; 3], "Curator and ours have a key");
        taken.iter().for_each(|taken| taken.store(false, Ordering::SeqCst));
        assert_eq!(java.ask("j", "release").await, "released");
    }
    while let Some(done) = timeout(PATIENCE, tasks.join_next()).await.expect("all are served") {
        done.expect("no panic");
    }
    assert_eq!(nodes(&servers), [0; 3]);
}

/// The answer to the transaction is lost. The claim finds all its nodes, or none.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_is_lost_finds_all_its_nodes() {
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let url = format!("zookeeper://127.0.0.1:{}/locks?session_timeout=10s&timeout=8s", proxy.port());
    let store = Arc::new(ZooKeeper::connect(&url).await.expect("the server takes locks"));
    let claims = Claims::new().expect("random bytes");
    let _listener = Listening::attach(&store, &claims);
    let keys = KEYS.map(|key| Key::new(key).expect("a key"));
    for round in 0..4 {
        let claim = claims.all(keys.clone(), Queue::Barging, LONG);
        if round > 0 {
            proxy.delay(ms(30));
        }
        let acquiring = tokio::spawn({
            let (store, claim) = (Arc::clone(&store), claim.clone());
            async move { store.acquire(&claim, Ask::Try).await }
        });
        if round > 0 {
            // The read is answered, and the transaction is not.
            wait_until("the nodes are there", PATIENCE, async || nodes(&servers) == [1; 3]).await;
            proxy.replies(Flow::Hold);
            proxy.cut();
            proxy.heal();
            proxy.delay(ms(0));
        }
        let attempt = acquiring.await.expect("no panic").expect("an answer");
        assert!(matches!(attempt, Attempt::Granted(_)), "{attempt:?}");
        assert_eq!(nodes(&servers), [1; 3], "a node too many");
        store.fence(&claim).await.expect("a token for the holder");
        assert_eq!(store.release(&claim, None).await.expect("an answer"), Released::Released);
        assert_eq!(nodes(&servers), [0; 3]);
    }
}

/// A user deletes one of the nodes. The holder is notified, and the other keys are freed.
#[tokio::test(flavor = "multi_thread")]
async fn who_loses_one_key_frees_the_others() {
    let servers = ZooKeeperServers::start();
    let (locks, other) = (connect(&url(&servers)).await, connect(&url(&servers)).await);
    for key in KEYS {
        let guard = all(&locks, &KEYS).await;
        let shown = other.inspect(key).await.expect("an answer").expect("it is held");
        wait_until("it is watched", PATIENCE, async || servers.watches() == KEYS.len()).await;
        assert!(other.force_release(key, &shown.holders[0].id, "a test").await.expect("an answer"));
        assert_eq!(timeout(PATIENCE, guard.lost()).await.expect("told"), LossReason::Taken);
        drop(guard);
        wait_until("all are free", PATIENCE, async || nodes(&servers) == [0; 3]).await;
    }
}

/// A direct request to the store waits for the first key that is held.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_told_when_another_attempt_makes_sense() {
    let servers = ZooKeeperServers::start();
    let store = ZooKeeper::connect(&url(&servers)).await.expect("a store");
    let claims = Claims::new().expect("random bytes");
    let _listener = Listening::attach(&store, &claims);
    let keys = KEYS.map(|key| Key::new(key).expect("a key"));
    let (claim, holder) = (claims.all(keys.clone(), Queue::Barging, LONG), claims.exclusive(&keys[1], LONG));
    timeout(PATIENCE, store.changed(&claim)).await.expect("all are free");
    assert!(matches!(store.acquire(&holder, Ask::Try).await, Ok(Attempt::Granted(_))));
    assert!(matches!(store.acquire(&claim, Ask::Try).await, Ok(Attempt::Held(_))));
    let released = async {
        wait_until("it is watched", PATIENCE, async || servers.watches() == 1).await;
        store.release(&holder, None).await
    };
    let (changed, released) = tokio::join!(timeout(PATIENCE, store.changed(&claim)), released);
    assert_eq!(released.expect("an answer"), Released::Released);
    changed.expect("told");
    assert!(matches!(store.acquire(&claim, Ask::Try).await, Ok(Attempt::Granted(_))));
    assert_eq!(store.release(&claim, None).await.expect("an answer"), Released::Released);
}

/// Acquiring free keys takes two round trips, with two reads of each key and one transaction. The release takes one
/// round trip, with one request for each key.
#[tokio::test(flavor = "multi_thread")]
async fn free_keys_cost_three_requests_each_and_one_transaction() {
    const CYCLES: u64 = 50;
    let servers = ZooKeeperServers::start();
    let locks = connect(&url(&servers)).await;
    all(&locks, &KEYS).await.release().await.expect("an answer");
    let (before, since) = (servers.requests(), Bound::new(LONG));
    for _ in 0..CYCLES {
        let guard = all(&locks, &KEYS).await;
        guard.release().await.expect("an answer");
    }
    let (sent, least) = (servers.requests() - before, CYCLES * (3 * KEYS.len() as u64 + 1));
    let most = least + crate::cost::alive(since.elapsed());
    assert!((least..=most).contains(&sent), "{sent} requests, at most {most}");
}

/// A request for more keys than fit into one transaction is refused before anything is sent.
#[tokio::test(flavor = "multi_thread")]
async fn more_keys_than_a_transaction_takes_are_refused() {
    let servers = patient_servers();
    // The directories of all keys are created first. On a busy machine this takes longer than the default timeout of a
    // call.
    let url = format!("{}?session_timeout=20s&timeout=20s", servers.url("locks"));
    let store = ZooKeeper::connect(&url).await.expect("a store");
    let locks = LockManager::builder(store).ttl(LONG).max_keys(1_000).build().expect("a manager");
    let keys = |count: usize| (0..count).map(|number| format!("{number}{}", "é".repeat(250)));
    let error = locks.all(keys(1_000)).ttl(LONG).try_acquire().await.expect_err("too large");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("servers take 1 MB"), "{error}");
    let guard = locks.all(keys(500)).ttl(LONG).acquire().await.expect("it fits");
    guard.release().await.expect("an answer");
}
