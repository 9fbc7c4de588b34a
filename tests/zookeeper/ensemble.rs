//! The history of holds under load, while the leaders die in sequence.

use std::time::Duration;

use fastrand::Rng;
use lock_core::clock::Clock;
use lock_core::testkit::history::History;
use lock_tests::{PATIENCE, ZooKeeperServers, wait_until};

use crate::load::{End, Kind, Load, count};
use crate::support::{connect, leader, ms};

const CHANGES: usize = 10;
const TTL: Duration = Duration::from_secs(8);

/// Kills the leaders in sequence. Each restarts once the others have elected the next leader.
async fn torment(servers: &mut ZooKeeperServers, history: &History) {
    for _ in 0..CHANGES {
        let held = count(history).0;
        wait_until("locks are held", PATIENCE * 2, async || count(history).0 > held + 20).await;
        let leader = leader(servers).await;
        servers.kill9(leader);
        wait_until("the next leader", PATIENCE * 3, async || servers.leader().is_some()).await;
        servers.restart(leader);
        servers.wait_ready(leader);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_holder_at_a_time_and_tokens_in_order_over_ten_leaders() {
    let mut servers = ZooKeeperServers::builder().members(3).tick(ms(500)).start();
    let url = format!("{}?session_timeout=8s&timeout=8s", servers.url("locks"));
    let managers = [connect(&url).await, connect(&url).await, connect(&url).await];
    let history = History::new(Clock::Suspend);
    let load = Load {
        kinds: &[Kind::Lock, Kind::Fair, Kind::All, Kind::Read, Kind::Write, Kind::Permit],
        drops: Some((4, ms(60))),
        ..Load::exclusive(TTL, TTL)
    };
    let mut random = Rng::new();
    tokio::select! {
        () = load.run_into(&history, &managers, 3, End::After(Duration::MAX), &mut random) => unreachable!("it has no end"),
        () = torment(&mut servers, &history) => {}
    }
    let (holds, fenced) = count(&history);
    assert!(holds > 200 && fenced > 50, "{holds} holds, {fenced} with a token");
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
    let idle = async || managers.iter().all(|locks| locks.held() == 0);
    wait_until("every lock was released", PATIENCE, idle).await;
}
