//! The history of holds under load, while leaders die, stop and return.

use std::time::Duration;

use fastrand::Rng;
use lock_core::LockManager;
use lock_core::clock::Clock;
use lock_core::testkit::history::History;
use lock_tests::{Bound, Etcd, PATIENCE, wait_until};
use tokio::time::sleep;

use crate::load::{End, Kind, Lasting, Load, count};
use crate::support::{connect, empty, manager, ms};

/// This ttl is longer than the sum of a stop, the two seconds between renewals, and half a second. A leader that
/// continues after a stop does not know at first that it was replaced. Until then it may revoke a lease that it has not
/// kept alive for so long.
const TTL: Duration = Duration::from_secs(6);

const LASTING: Lasting = Lasting {
    one_of: 16,
    // Such holds need renewals, some of them while there is no leader.
    longest: Duration::from_secs(11),
    extends_to: 2,
    min_hold: Duration::from_secs(2),
};

/// Runs four workers for each manager.
async fn load(
    history: &History,
    managers: &[LockManager],
    time: Duration,
    lasting: Option<Lasting>,
    random: &mut Rng,
) {
    let load = Load {
        lasting,
        kinds: &[Kind::Lock, Kind::Fair, Kind::All, Kind::Read, Kind::Write, Kind::Permit],
        drops: Some((4, ms(60))),
        ..Load::exclusive(TTL, time)
    };
    load.run_into(history, managers, 4, End::After(time), random).await;
}

/// Repeatedly kills the leader, or stops it for a while. Returns the number of faults.
async fn torment(etcd: &mut Etcd, time: Duration, mut random: Rng) -> usize {
    let (over, mut faults) = (Bound::new(time), 0);
    while over.elapsed() < time {
        sleep(ms(random.u64(1_500..3_500))).await;
        let leader = etcd.leader();
        if random.u8(..3) == 0 {
            etcd.stop(leader);
            // This stop is long enough for the election of another leader.
            sleep(ms(2_500)).await;
            etcd.cont(leader);
        } else {
            etcd.kill9(leader);
            sleep(ms(random.u64(200..2_500))).await;
            etcd.restart(leader);
        }
        faults += 1;
    }
    faults
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::print_stdout, reason = "what came of it is wanted as well as the verdict")]
async fn one_holder_at_a_time_and_tokens_in_order_whatever_happens_to_leaders() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let mut etcd = Etcd::builder().members(3).start();
    let mut managers = Vec::new();
    for _ in 0..3 {
        managers.push(manager(&etcd).await);
    }
    let (history, mut faults) = (History::new(Clock::Suspend), 0);
    let lasted = || history.holds().iter().filter(|hold| hold.ended - hold.acquired > TTL).count();
    let (over, mut time) = (Bound::new(Duration::from_secs(200)), Duration::from_secs(75));
    loop {
        let by_random = random.fork();
        let loaded = load(&history, &managers, time, Some(LASTING), &mut random);
        let ((), more) = tokio::join!(loaded, torment(&mut etcd, time, by_random));
        faults += more;
        // A busy machine does less work in the same time, so it gets more time.
        if over.elapsed() >= Duration::from_secs(200) || faults >= 12 && lasted() >= 3 {
            break;
        }
        time = Duration::from_secs(25);
    }
    let ((holds, fenced), lasted) = (count(&history), lasted());
    println!(
        "seed {seed}: {faults} faults, {holds} holds, {fenced} with a token, {lasted} longer than a lease"
    );
    history.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    let enough = faults >= 12 && holds > 60 && fenced > 30 && lasted >= 3;
    assert!(enough, "{faults} faults, {holds} holds, {fenced} with a token, {lasted} longer than a lease");
    let idle = async || managers.iter().all(|locks| locks.held() == 0);
    wait_until("every lock was released", PATIENCE, idle).await;
    empty(&etcd, PATIENCE).await;
}

/// This is the negative control. Managers without a common cluster do not exclude each other, and the check detects
/// this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_of_two_clusters_shows_two_holders() {
    let (one, two) = (Etcd::start(), Etcd::start());
    let managers = [connect(&one.url()).await, connect(&two.url()).await];
    let history = History::new(Clock::Suspend);
    load(&history, &managers, ms(1_500), None, &mut Rng::new()).await;
    let verdict = history.check();
    assert!(verdict.is_err(), "neither two holders nor tokens out of order");
}
