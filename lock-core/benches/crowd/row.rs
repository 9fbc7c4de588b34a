//! Measures one row of the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_core::strategy::retry;
use lock_core::{LockManager, LockRequest};
use tokio::task::JoinSet;

pub(crate) const KINDS: [&str; 3] = ["semaphore", "fair", "read"];

/// The time for which the writer holds the lock.
const WRITES: Duration = Duration::from_secs(3);
const PERMITS: u32 = 2;
/// A row may take this many times its ideal time.
const BAR: f64 = 2.0;

/// The number of waiters that a store serves before the measurement.
const WARM_UP: usize = 300;

#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    pub(crate) waiters: usize,
    pub(crate) round_trip: Duration,
    /// The number of round trips between two holders.
    pub(crate) trips: u32,
}

impl Row {
    fn request(&self, locks: &LockManager) -> LockRequest {
        match self.kind {
            "semaphore" => locks.semaphore("crowd", PERMITS),
            "fair" => locks.fair("crowd"),
            _ => locks.read("crowd"),
        }
    }

    /// Returns the time for which each waiter holds the lock.
    fn hold(&self) -> Duration {
        match self.kind {
            "semaphore" => Duration::from_millis(20),
            "fair" => Duration::from_millis(2),
            _ => Duration::ZERO,
        }
    }

    /// Returns the ideal time: all holds one after another, with the round trips for the release and its notification
    /// between two holds. `held` is the time that all holds together took. It is more than was requested, because a
    /// timer fires up to a millisecond late.
    fn ideal(&self, held: Duration) -> Duration {
        let turns = |holders: u32| {
            let waiters = u32::try_from(self.waiters).expect("not so many");
            held / holders + self.round_trip * self.trips * waiters.div_ceil(holders)
        };
        match self.kind {
            "semaphore" => turns(PERMITS),
            "fair" => turns(1),
            _ => WRITES + self.round_trip * 2,
        }
    }

    /// Starts all waiters and prints how they were served. Returns whether the row passes.
    pub(crate) async fn measure(&self, url: &str) -> bool {
        let locks = LockManager::connect(url).await.expect("the server takes locks");
        warm_up(&locks).await;
        let held = self.hold() * u32::try_from(self.waiters).expect("not so many");
        let patience = self.ideal(held) * 4 + Duration::from_secs(20);
        let writer = match self.kind {
            "read" => Some(locks.write("crowd").acquire().await.expect("it is free")),
            _ => None,
        };
        let start = Instant::now();
        let (came, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..self.waiters {
            let (request, hold) = (self.request(&locks).strategy(retry().within(patience)), self.hold());
            let (came, served) = (Arc::clone(&came), Arc::clone(&served));
            tasks.spawn(async move {
                let number = came.fetch_add(1, Ordering::Relaxed);
                let guard = request.acquire().await.map_err(|error| error.to_string())?;
                let place = served.fetch_add(1, Ordering::Relaxed);
                let began = Instant::now();
                tokio::time::sleep(hold).await;
                let held = began.elapsed();
                guard.release().await.map_err(|error| error.to_string())?;
                Ok::<_, String>((number.abs_diff(place), held))
            });
        }
        if let Some(writer) = writer {
            tokio::time::sleep(WRITES).await;
            writer.release().await.expect("an answer");
        }
        let (mut done, mut displaced, mut held, mut failure) = (0, 0, Duration::ZERO, None);
        let all = async {
            while let Some(task) = tasks.join_next().await {
                match task.expect("no panic") {
                    Ok((by, this)) => {
                        done += 1;
                        displaced += by;
                        held += this;
                    }
                    Err(error) => failure = Some(error),
                }
            }
        };
        let _ = tokio::time::timeout(patience, all).await;
        let took = start.elapsed();
        let ratio = took.as_secs_f64() / self.ideal(held).as_secs_f64();
        let good = done == self.waiters && ratio <= BAR;
        #[allow(clippy::cast_precision_loss, reason = "a count of waiters")]
        let displaced = displaced as f64 / done.max(1) as f64;
        println!(
            "  {:<10} {:>7} {:>7} ms: {done:>5} served in {:>7.2} s ({ratio:>5.2} of the ideal), displaced {displaced:>6.1}{}",
            self.kind,
            self.waiters,
            self.round_trip.as_millis(),
            took.as_secs_f64(),
            if good { "" } else { "  MISSED" },
        );
        locks.shutdown(Duration::from_secs(5)).await;
        good
    }
}

/// Serves a crowd of empty holds before the measurement. The first waiters create everything that is created once. A
/// server that compiles frequent code, as ZooKeeper does, has compiled it by then.
async fn warm_up(locks: &LockManager) {
    let request = || locks.fair("first").strategy(retry().within(Duration::from_secs(60)));
    let mut tasks: JoinSet<_> = (0..WARM_UP).map(|_| request().run(async {})).collect();
    while let Some(served) = tasks.join_next().await {
        served.expect("no panic").expect("it is served");
    }
}
