//! Keys that are used once: 32 tasks use 1,000,000 keys of every kind on each store, and drop some futures and guards.
//!
//! No two tasks may hold a key at once. The memory and the file descriptors of the process stay constant. The server
//! keeps at most the data of one minute, and nothing a minute after the end. (Redis remembers a fencing token for ten
//! more leases.) The test prints the table of each run:
//!
//! ```sh
//! LOCK_SOAK_SECONDS=600 cargo test -p lock-tests --test soak etcd -- --nocapture
//! ```
//!
//! (The first samples show the start. Runs of several minutes show the data of one minute, and whether memory grows.)
//! By default each store gets a few seconds. Half of the time is without fencing tokens, and half is with them.
#![allow(clippy::print_stdout, reason = "the table is what it is run for")]

mod keys;
mod left;
mod meter;
mod store;
mod work;

use std::sync::Arc;
use std::time::Duration;

use lock_core::ManagerBuilder;

use self::keys::Keys;
use self::store::Store;
use self::work::Soak;

/// The soaks run one at a time, because the memory and the descriptors are measured for the whole process.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The default duration of each half.
const HALF: Duration = Duration::from_secs(2);

/// The durations of a run.
#[derive(Clone, Copy, Debug)]
struct Times {
    ttl: Duration,
    half: Duration,
}

async fn soak(store: Store, ttl: Duration) {
    let alone = ALONE.lock().await;
    let locks = ManagerBuilder::connect(&store.url()).await.expect("the store takes locks");
    let locks = locks.ttl(ttl).build().expect("a ttl of the store");
    let half = match std::env::var("LOCK_SOAK_SECONDS") {
        Ok(text) => Duration::from_secs(text.parse().expect("a number of seconds")) / 2,
        Err(_) => HALF,
    };
    let keys = Keys::new(store.has_order());
    let soak = Soak::new(locks, Times { ttl, half }, keys);
    Arc::clone(&soak).run(&store).await;
    // The other soaks need not wait until the data are gone.
    drop(alone);
    soak.all_goes(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    soak(Store::Memory, Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    soak(Store::redis(), Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redlock() {
    soak(Store::redlock().await, store::MAX_TTL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd() {
    soak(Store::etcd(), Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zookeeper() {
    soak(Store::zookeeper().await, Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    soak(Store::postgres(), Duration::from_secs(10)).await;
}
