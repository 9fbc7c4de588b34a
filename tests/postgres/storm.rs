//! Random work, dropped at random moments, on a network with random faults. A failure prints the seed.

use std::time::Duration;

use fastrand::Rng;
use lock_core::LockManager;
use lock_tests::{PATIENCE, PostgresServer, Proxy, wait_until_or};

use crate::load::{End, Kind, Load, disturb};
use crate::support::{LONG, connect, ms};

/// The storm ends after 100 holds. These are its shortest and its longest duration.
const END: End = End::With(100, Duration::from_secs(5), Duration::from_secs(300));

#[tokio::test]
async fn a_storm_leaves_nothing_behind_and_shows_one_holder_at_a_time() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = PostgresServer::start();
    let ways = [Proxy::to(server.address()), Proxy::to(server.address())];
    let [one, two] = [&ways[0], &ways[1]].map(|way| server.url_at(way.port()));
    let managers = [connect(&one).await, connect(&two).await];
    let load = Load {
        kinds: &[Kind::Lock, Kind::Fair, Kind::All, Kind::Read, Kind::Write, Kind::Permit],
        drops: Some((1, ms(60))),
        keeps: true,
        ..Load::exclusive(LONG, LONG)
    };
    let (first, second) = (random.fork(), random.fork());
    let history = tokio::select! {
        history = load.run(&managers, 5, END, &mut random) => history,
        () = disturb(&ways[0], ms(150), first) => unreachable!("it never ends"),
        () = disturb(&ways[1], ms(150), second) => unreachable!("it never ends"),
    };
    ways.iter().for_each(Proxy::heal);

    history.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    // Every lease is a minute, so every missing grant was released.
    let left = || server.sql(LEFT);
    let is_clean = async || left().is_empty() && managers.iter().all(|locks| locks.held() == 0);
    let report = || format!("{}; held: {:?}", left(), managers.each_ref().map(LockManager::held));
    let what = format!("no lock is left, seed {seed}");
    wait_until_or(&what, PATIENCE, is_clean, report).await;
    let deadlocks = server.sql("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'");
    assert_eq!(deadlocks, "0", "rows are locked in one order, seed {seed}");
}

/// Selects the remaining grants and waiters.
const LEFT: &str = "SELECT key, mode, expires_at - clock_timestamp() FROM lock_core.holders \
                    WHERE expires_at > clock_timestamp() UNION ALL SELECT key, 'waits ' || mode, \
                    deadline - clock_timestamp() FROM lock_core.waiters WHERE deadline > clock_timestamp()";
