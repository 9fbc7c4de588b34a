//! The history of holds under load, while connections are killed and scripts are forgotten.

use std::time::Duration;

use fastrand::Rng;
use lock_core::LockManager;
use lock_core::testkit::history::{History, Violation};
use lock_tests::{PATIENCE, RedisServer};

use crate::load::{End, Load, count};
use crate::support::{empty, manager, ms};

const TTL: Duration = ms(1_000);

/// Runs four workers for each manager.
async fn load(managers: &[LockManager], time: Duration, end: End) -> History {
    Load::exclusive(TTL, time).run(managers, 4, end, &mut Rng::new()).await
}

/// Repeatedly kills every connection and flushes every script.
async fn torment(server: &RedisServer) {
    for fault in (0..3).cycle() {
        tokio::time::sleep(ms(130)).await;
        match fault {
            0 => assert!(server.cut_clients() > 0, "nobody was connected"),
            1 => drop(server.command(&["SCRIPT", "FLUSH"])),
            _ => drop(server.command(&["CLIENT", "PAUSE", "50", "WRITE"])),
        }
    }
}

#[tokio::test]
async fn one_holder_at_a_time_and_tokens_in_order_whatever_happens_to_connections() {
    let server = RedisServer::start();
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager(&server).await);
    }
    let time = Duration::from_secs(9);
    let history = tokio::select! {
        history = load(&managers, time, End::With(250, time, 20 * time)) => history,
        () = torment(&server) => unreachable!("it never ends"),
    };
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
    let (holds, fenced) = count(&history);
    assert!(holds > 200 && fenced > 100, "{holds} holds, {fenced} with a token");
    for locks in &managers {
        locks.shutdown(Duration::from_secs(5)).await;
    }
    server.command(&["DEL", "{k0}:f", "{k1}:f", "{k2}:f"]);
    empty(&server, PATIENCE).await;
}

/// This is the negative control. Managers without a common server do not exclude each other, and the check detects
/// this.
#[tokio::test]
async fn a_history_of_two_servers_shows_two_holders() {
    let (one, two) = (RedisServer::start(), RedisServer::start());
    let managers = [manager(&one).await, manager(&two).await];
    let verdict = load(&managers, ms(500), End::After(ms(500))).await.check();
    assert!(matches!(verdict, Err(Violation::Overlap { .. })), "{verdict:?}");
}
