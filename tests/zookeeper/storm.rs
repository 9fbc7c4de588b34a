//! Random work, dropped at random moments, on a network with random faults. A failure prints the seed.

use std::time::Duration;

use fastrand::Rng;
use lock_tests::{PATIENCE, Proxy, ZooKeeperServers, wait_until};

use crate::load::{ALL_KEYS, End, Kind, Load, disturb};
use crate::support::{LONG, connect, ms};

/// The storm ends after 100 holds. These are its shortest and its longest duration.
const END: End = End::With(100, Duration::from_secs(6), Duration::from_secs(300));

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_leaves_nothing_behind_and_shows_one_holder_at_a_time() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let servers = ZooKeeperServers::start();
    let ways = [Proxy::to(servers.address(0)), Proxy::to(servers.address(0))];
    let mut managers = Vec::new();
    for way in &ways {
        let url = format!("zookeeper://127.0.0.1:{}/locks?session_timeout=2s", way.port());
        managers.push(connect(&url).await);
    }
    let load = Load {
        kinds: &[Kind::Lock, Kind::Fair, Kind::Read, Kind::Write, Kind::Permit],
        drops: Some((1, ms(200))),
        ..Load::exclusive(LONG, LONG)
    };
    let (first, second) = (random.fork(), random.fork());
    let history = tokio::select! {
        history = load.run(&managers, 4, END, &mut random) => history,
        () = disturb(&ways[0], ms(400), first) => unreachable!("it never ends"),
        () = disturb(&ways[1], ms(400), second) => unreachable!("it never ends"),
    };
    ways.iter().for_each(Proxy::heal);
    history.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    for key in ALL_KEYS {
        let what = format!("no node of {key} is left, seed {seed}");
        wait_until(&what, PATIENCE, async || servers.nodes(&format!("locks/{key}")) == 0).await;
    }
    wait_until("no watch is left", PATIENCE, async || servers.watches() == 0).await;
}
