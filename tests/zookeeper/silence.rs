//! Servers that do not answer for a while.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use lock_core::backend::zookeeper::ZooKeeper;
use lock_core::backend::{Ask, Attempt, Backend, Listener, Renew, Renewal};
use lock_core::key::Key;
use lock_core::owner::Owner;
use lock_core::testkit::Claims;
use lock_core::{LossReason, Released};
use lock_tests::{Bound, PATIENCE, Proxy, ZooKeeperServers, wait_until};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{LONG, connect, connect_for_long, leader, ms, try_once, works_again};

/// Returns the number of sessions that a server serves.
fn sessions(servers: &ZooKeeperServers, member: usize) -> usize {
    let bound = Bound::new(PATIENCE);
    let answer = loop {
        // On a busy machine the answer may take longer than the timeout of one request.
        if let Some(answer) = servers.ask(member, "cons") {
            break answer;
        }
        bound.check("it lists its connections");
        std::thread::sleep(ms(20));
    };
    answer.lines().filter(|line| line.contains("sid=")).count()
}

/// A stopped follower sends nothing, like a server without power. Its clients move to another server in time and keep
/// their locks and their places, although some of them first try the silent server again.
#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_a_silent_follower_keep_their_locks() {
    const CLIENTS: usize = 8;
    let servers = ZooKeeperServers::builder().members(3).tick(ms(2_000)).start();
    let leader = leader(&servers).await;
    let followers: Vec<usize> = (0..3).filter(|member| *member != leader).collect();
    let hosts: Vec<String> = followers.iter().map(|member| servers.address(*member).to_string()).collect();
    // A lock has half of the session timeout left. A silent server is given up after a fifth of it.
    let url = format!("zookeeper://{}/locks?session_timeout=30s&timeout=15s", hosts.join(","));
    let mut guards = Vec::new();
    for number in 0..CLIENTS {
        let locks = connect_for_long(&url).await;
        let guard = try_once(&locks, &format!("k{number}")).await.expect("free");
        let place = tokio::spawn(locks.fair("line").ttl(LONG).wait(LONG).acquire());
        let line = async || {
            locks.inspect("line").await.expect("an answer").is_some_and(|line| line.waiting == number)
        };
        wait_until("it has its place", PATIENCE, line).await;
        guards.push((guard, place));
    }
    wait_until("each has its session", PATIENCE, async || {
        followers.iter().map(|member| sessions(&servers, *member)).sum::<usize>() == CLIENTS
    })
    .await;
    let silent = *followers.iter().max_by_key(|member| sessions(&servers, **member)).expect("two followers");
    let moving = sessions(&servers, silent);
    assert!(moving >= CLIENTS / 2, "{moving} of {CLIENTS}");
    let since = Bound::new(PATIENCE);
    servers.stop(silent);
    let other = *followers.iter().find(|member| **member != silent).expect("two followers");
    wait_until("all have moved", ms(15_000), async || sessions(&servers, other) == CLIENTS).await;
    let moved = since.elapsed();
    // A lock that has had no answer since then would be lost by now.
    sleep(ms(16_000).saturating_sub(since.elapsed())).await;
    for (guard, _) in &guards {
        guard.check().unwrap_or_else(|error| panic!("moved after {moved:?}: {error}"));
    }
    for (guard, place) in guards {
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        let line = place.await.expect("no panic").expect("its turn, in the order of the places");
        assert_eq!(line.release().await.expect("an answer"), Released::Released);
    }
    servers.cont(silent);
}

/// A request that is given up while no server is connected was never sent, so no later request is needed for it.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_never_left_cost_the_servers_nothing() {
    const REQUESTS: usize = 200;
    let servers = ZooKeeperServers::builder().tick(ms(1_000)).start();
    let proxy = Proxy::to(servers.address(0));
    let url = format!("zookeeper://127.0.0.1:{}/locks?session_timeout=10s", proxy.port());
    let locks = connect(&url).await;
    try_once(&locks, "k").await.expect("free").release().await.expect("an answer");
    proxy.refuse(true);
    proxy.cut();
    // The client may notice the end of the server late. Until then, requests are sent.
    let noticed = async || timeout(ms(300), try_once(&locks, "k")).await.is_err();
    wait_until("the connection is gone", PATIENCE, noticed).await;
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        let request = locks.lock(format!("k{number}")).ttl(LONG).wait(PATIENCE).acquire();
        requests.spawn(timeout(ms(300), request));
    }
    while let Some(request) = requests.join_next().await {
        let given_up = request.expect("no panic");
        assert!(given_up.is_err(), "there is no connection: {given_up:?}");
    }
    let before = servers.requests();
    proxy.heal();
    works_again(&locks, "k").await;
    // Within this second, a request on their behalf would be sent.
    sleep(ms(1_000)).await;
    let sent = servers.requests() - before;
    assert!(sent < 60, "{sent} requests after {REQUESTS} that never left");
}

/// Counts the grants that are reported as lost.
#[derive(Debug, Default)]
struct Losses(AtomicUsize);

impl Listener for Losses {
    fn granted(&self, _owner: Owner, _waiters: usize) {}

    fn contended(&self, _key: &str) {}

    fn opened(&self, _key: &str) {}

    fn reconnected(&self) {}

    fn lost(&self, _owner: Owner, _reason: LossReason) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A downgrade deletes the node of the writer. If its answer is late, so is the notification of the deletion. The
/// holder must not mistake the deletion for that of another client.
#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_that_is_dropped_at_its_deadline_is_no_loss() {
    let servers = ZooKeeperServers::builder().tick(ms(1_000)).start();
    let url = format!("{}?session_timeout=10s&timeout=1s", servers.url("locks"));
    let store = ZooKeeper::connect(&url).await.expect("a store");
    let (claims, losses) = (Claims::new().expect("random bytes"), Arc::new(Losses::default()));
    let listener: Weak<dyn Listener> = Arc::downgrade(&(Arc::clone(&losses) as Arc<dyn Listener>));
    store.attach(claims.owner().process(), listener, Some(&Handle::current()));
    for round in 0..3 {
        let writer = claims.exclusive(&Key::new(&format!("k{round}")).expect("a key"), LONG);
        assert!(matches!(store.acquire(&writer, Ask::Try).await, Ok(Attempt::Granted(_))));
        let renewed = store.renew(&[Renew { claim: &writer, ttl: LONG }]).await;
        assert!(matches!(renewed[..], [Renewal::Renewed { .. }]), "{renewed:?}");
        wait_until("it is watched", PATIENCE, async || servers.watches() == 1).await;
        servers.stop(0);
        let dropped = store.downgrade(&writer).await;
        assert!(matches!(dropped, Renewal::Unknown(_)), "{dropped:?}");
        servers.cont(0);
        let path = format!("locks/k{round}");
        wait_until("it is done all the same", PATIENCE, async || {
            servers.names(&path).iter().any(|name| name.contains("__READ__"))
        })
        .await;
        // The answer to this request arrives after the notification.
        let done = store.downgrade(&writer).await;
        assert!(matches!(done, Renewal::Renewed { .. }), "{done:?}");
        assert_eq!(losses.0.load(Ordering::SeqCst), 0, "the holder did it itself");
        assert_eq!(store.release(&writer, None).await.expect("an answer"), Released::Released);
    }
}
