//! Random work, dropped at random moments, on a network with random faults. A failure prints the seed.

use std::time::Duration;

use fastrand::Rng;
use lock_tests::{Bound, PATIENCE, Proxy, RedisServer, wait_until_or};

use crate::load::{End, Kind, Load, disturb};
use crate::support::{LONG, connect, ms};
use crate::turns::{Beside, beside};

/// The storm of random work ends after 100 holds. These are its shortest and its longest duration.
const END: End = End::With(100, Duration::from_secs(5), Duration::from_secs(300));
/// The duration of the storm in which the server loses its data.
const TIME: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_storm_leaves_nothing_behind_and_shows_one_holder_at_a_time() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let ways = [Proxy::before(&server), Proxy::before(&server)];
    let managers = [connect(&ways[0].url()).await, connect(&ways[1].url()).await];
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
    // Every lease is a minute, so every missing key was released.
    let left = || server.keys().into_iter().filter(|key| !key.ends_with(":f"));
    let is_clean = async || left().next().is_none() && managers.iter().all(|locks| locks.held() == 0);
    let report = || {
        let left = left().map(|key| server.describe(&key));
        left.chain(managers.iter().map(|locks| format!("a manager holds {} locks", locks.held())))
            .collect::<Vec<_>>()
    };
    let what = format!("no lock is left, seed {seed}");
    wait_until_or(&what, PATIENCE, is_clean, || report().join("\n")).await;
}

/// The server repeatedly forgets the lock, in different ways, while the holder's network is bad.
#[tokio::test]
#[allow(clippy::print_stdout, reason = "what came of it is wanted as well as the verdict")]
async fn a_storm_that_takes_the_data_leaves_the_next_holder_the_largest_token() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let way = Proxy::before(&server);
    let (old, next) = (connect(&way.url()).await, connect(&server.url()).await);
    let mut faults = random.fork();
    let rounds = async {
        let (over, mut sum) = (Bound::new(TIME + LONG), Beside { turns: 0, larger: 0 });
        let mut rounds = 0;
        while over.elapsed() < TIME {
            let (turns, hold) = (random.usize(20..3_000), ms(random.u64(50..600)));
            let forget = || {
                let how: &[&str] =
                    [&["FLUSHALL"][..], &["DEL", "k"], &["UNLINK", "k", "{k}:f", "{k}:q"]][faults.usize(..3)];
                server.command(how);
            };
            if let Some(Beside { turns, larger }) = beside((&old, &next), "k", (turns, hold), forget).await {
                (sum.turns, sum.larger, rounds) = (sum.turns + turns, sum.larger + larger, rounds + 1);
            }
        }
        (rounds, sum)
    };
    let (rounds, sum) = tokio::select! {
        sum = rounds => sum,
        () = disturb(&way, ms(150), Rng::with_seed(seed)) => unreachable!("it never ends"),
    };
    println!("seed {seed}: {rounds} times the next holder had the lock: {sum:?}");
    assert_eq!(sum.larger, 0, "seed {seed}: {sum:?}");
    assert!(rounds > 0, "seed {seed}: nobody else ever got the lock, this shows nothing");
}
