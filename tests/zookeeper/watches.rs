//! Many watches of one session.

use lock_core::LockGuard;
use lock_tests::{PATIENCE, Proxy, wait_until};

use crate::support::{connect, ms, patient_servers, try_once, works_again};

/// A client requests its watches again after each reconnect, and the total length of their paths is limited. Beyond
/// this limit, no reconnect would succeed. So the library watches no more than that, and all locks outlive a lost
/// connection.
#[tokio::test(flavor = "multi_thread")]
async fn many_locks_outlive_a_lost_connection() {
    const LOCKS: usize = 400;
    let servers = patient_servers();
    let proxy = Proxy::to(servers.address(0));
    let url = format!("zookeeper://127.0.0.1:{}/locks?session_timeout=10s&timeout=2s", proxy.port());
    let locks = connect(&url).await;
    let mut guards: Vec<LockGuard> = Vec::new();
    for number in 0..LOCKS {
        let key = format!("{number:0>480}");
        guards.push(try_once(&locks, &key).await.expect("free"));
    }
    wait_until("some are watched", PATIENCE, async || servers.watches() > 50).await;
    // Every lock has been renewed, so all nodes that need a watch have one.
    tokio::time::sleep(ms(5_000)).await;
    for _ in 0..3 {
        proxy.cut();
        works_again(&locks, "another").await;
        tokio::time::sleep(ms(200)).await;
    }
    let held = guards.iter().filter(|guard| guard.is_held()).count();
    assert_eq!(held, LOCKS, "lost with their connection");
}
