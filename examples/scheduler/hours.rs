//! Runs four hours of schedules in some seconds. The clock moves forward whenever all schedulers wait.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;
use lock_core::backend::memory::Memory;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::common::clock::{Micros, micros};
use crate::common::database::Place;
use crate::journal;
use crate::report::overlaps;
use crate::scheduler::{JOB, Plan, Scheduler};
use crate::table::{Event, Run, Table};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// The first tick.
const FIRST: i64 = 1_000;
/// How far the clock of each scheduler is ahead.
const AHEAD: [Micros; 3] = [0, 2_000_000, -2_000_000];

/// Returns a plan whose ttl is 12 s, and whose job takes much longer.
fn plan(every: Duration, takes: impl Fn(i64) -> Duration + Send + Sync + 'static) -> Plan {
    Plan {
        every,
        estimate: Duration::from_secs(10),
        takes: Arc::new(takes),
        step: Duration::from_secs(10),
        look: Duration::from_secs(8),
        min_hold: Duration::from_secs(5),
    }
}

/// Runs three schedulers for four hours. `key` returns the key of the lock of each scheduler.
async fn four_hours(test: &str, plan: &Plan, key: impl Fn(usize) -> String) -> (Vec<Run>, Vec<Event>) {
    let (place, memory, mut tasks) = (Place::temporary(test), Memory::new(), JoinSet::new());
    let table = Table::open(&place.name, JOB).await.expect("a file");
    table.make(FIRST - 1).await.expect("the tables");
    #[allow(clippy::disallowed_methods, reason = "the clock of the test")]
    let began = Instant::now();
    let start = FIRST * micros(plan.every);
    for (number, ahead) in AHEAD.into_iter().enumerate() {
        let (name, plan) = (format!("scheduler-{number}"), plan.clone());
        let locks = LockManager::builder(memory.clone()).ttl(plan.ttl()).build().expect("a store");
        let table = Table::open(&place.name, JOB).await.expect("the file");
        let events = Table::open(&place.name, JOB).await.expect("the file");
        let journal = tokio::spawn(journal::write(locks.events(), name.clone(), events));
        let clock = Arc::new(move || start + ahead + micros(began.elapsed()));
        let scheduler = Scheduler { name, key: key(number), locks: locks.clone(), table, plan, clock };
        tasks.spawn(async move {
            // The schedulers stop before any of their clocks reaches the first tick beyond the four hours.
            scheduler.serve(tokio::time::sleep(HOUR * 4 - MINUTE / 4)).await.expect("a database");
            locks.shutdown(Duration::from_secs(2)).await;
            journal.await.expect("it ends with the manager");
        });
    }
    tasks.join_all().await;
    let mut runs = table.runs().await.expect("the runs");
    // These lines convert the times of all schedulers to the one clock of the test.
    for run in &mut runs {
        let ahead = ahead(run);
        (run.started, run.seen) = (run.started - ahead, run.seen - ahead);
    }
    (runs, table.events().await.expect("the events"))
}

/// Returns how far the clock of the worker of a run is ahead.
fn ahead(run: &Run) -> Micros {
    let number = run.worker.strip_prefix("scheduler-").and_then(|number| number.parse::<usize>().ok());
    AHEAD[number.expect("a worker has a number")]
}

#[tokio::test(start_paused = true)]
async fn every_tick_of_four_hours_is_run_once() {
    let plan = plan(MINUTE, |tick| Duration::from_secs(10 + 7 * u64::try_from(tick % 6).unwrap_or(0)));
    let (runs, _) = four_hours("scheduler-ticks", &plan, |_| JOB.to_owned()).await;
    let ticks: Vec<i64> = runs.iter().map(|run| run.tick).collect();
    assert_eq!(ticks, (FIRST..FIRST + 240).collect::<Vec<_>>());
    assert!(runs.iter().all(|run| run.outcome == "finished"), "{runs:?}");
    assert_eq!(overlaps(&runs), 0, "{runs:?}");
}

/// The lease is 12 s, and is renewed more than three thousand times.
#[tokio::test(start_paused = true)]
async fn a_job_of_hours_keeps_its_lock_and_the_others_skip() {
    let hours = Duration::from_secs(3 * 3_600 + 1_800);
    let long = FIRST + 5;
    let plan = plan(MINUTE, move |tick| if tick == long { hours } else { Duration::from_secs(10) });
    let (runs, events) = four_hours("scheduler-hours", &plan, |_| JOB.to_owned()).await;
    assert!(runs.iter().all(|run| run.outcome == "finished"), "{runs:?}");
    assert_eq!(overlaps(&runs), 0, "{runs:?}");
    let run = runs.iter().find(|run| run.tick == long).expect("it ran");
    assert!(run.seen - run.started >= micros(hours), "{run:?}");
    // The next run is for the tick that is due at the end of this run, by the clock of the next scheduler, or for the
    // tick after it. Ticks in between are skipped.
    let ticks: Vec<i64> = runs.iter().map(|run| run.tick).collect();
    let (after, due) = (ticks[6], (run.seen + ahead(&runs[6])) / micros(MINUTE));
    assert_eq!(&ticks[..6], (FIRST..=long).collect::<Vec<_>>());
    assert!((due..=due + 1).contains(&after), "{due}: {ticks:?}");
    assert_eq!(&ticks[6..], (after..FIRST + 240).collect::<Vec<_>>());
    for other in ["scheduler-0", "scheduler-1", "scheduler-2"].into_iter().filter(|name| *name != run.worker)
    {
        let skipped = events.iter().filter(|event| event.worker == other && event.event == "skipped").count();
        assert!(skipped > 1_500, "{other} skipped {skipped} times");
    }
    // A lock that is held for more than an hour is reported once.
    assert_eq!(events.iter().filter(|event| event.event == "held long").count(), 1);
    let usual = ["granted", "released", "skipped", "held long"];
    let unusual: Vec<_> = events.iter().filter(|event| !usual.contains(&event.event.as_str())).collect();
    assert!(unusual.is_empty(), "{unusual:?}");
}

/// This is the negative control: each scheduler has its own lock.
#[tokio::test(start_paused = true)]
async fn without_a_common_lock_they_run_at_once() {
    let plan = plan(MINUTE, |_| Duration::from_secs(30));
    let (runs, _) = four_hours("scheduler-careless", &plan, |number| format!("{JOB}:{number}")).await;
    assert!(overlaps(&runs) > 100, "{runs:?}");
    // The comparison of the tokens has refused some runs.
    assert!(runs.iter().any(|run| run.outcome == "REFUSED"), "{runs:?}");
}
