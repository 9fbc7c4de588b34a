//! Checks the example `scheduler` by its tables, while its holders are killed.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::backend::{FencingToken, Mode};
use lock_core::testkit::history::{Hold, check};

use super::rows;

pub(crate) const SCHEDULER: &str = env!("CARGO_BIN_EXE_scheduler");

/// A run of the job.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    fence: i64,
    tick: i64,
    worker: String,
    started: i64,
    seen: i64,
    pub(crate) outcome: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    happened: i64,
    worker: String,
    event: String,
    token: i64,
    detail: String,
}

/// The contents of the tables at the end.
pub(crate) struct Tables {
    pub(crate) runs: Vec<Run>,
    events: Vec<Event>,
}

impl Tables {
    pub(crate) fn read(file: &str) -> Self {
        let runs = "SELECT fence, tick, worker, started, seen, outcome FROM scheduler_runs ORDER BY fence";
        let runs = rows(file, runs, |row| {
            let (fence, tick, worker) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Run { fence, tick, worker, started: row.get(3)?, seen: row.get(4)?, outcome: row.get(5)? })
        });
        let events = "SELECT happened, worker, event, token, detail FROM scheduler_events ORDER BY happened";
        let events = rows(file, events, |row| {
            let (happened, worker, event) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Event { happened, worker, event, token: row.get(3)?, detail: row.get(4)? })
        });
        Self { runs: runs.expect("the runs"), events: events.expect("the events") }
    }

    /// Checks that no two runs overlapped, that each run had a larger token than the runs before it, and that the table
    /// refused no holder of the lock.
    pub(crate) fn check_history(&self) -> Result<(), String> {
        if let Some(refused) = self.runs.iter().find(|run| run.outcome == "REFUSED") {
            return Err(format!("the table refused one that held the lock: {refused:?}"));
        }
        let mut workers: Vec<&str> = self.runs.iter().map(|run| run.worker.as_str()).collect();
        workers.sort_unstable();
        let time = |micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        let hold = |run: &Run| Hold {
            worker: workers.partition_point(|worker| **worker < *run.worker),
            key: "job:report".to_owned(),
            mode: Mode::Exclusive,
            asked: time(run.started),
            acquired: time(run.started),
            ended: time(run.seen),
            fence: u64::try_from(run.fence).ok().map(FencingToken::new),
        };
        let holds: Vec<Hold> = self.runs.iter().map(hold).collect();
        check(&holds).map_err(|violation| violation.to_string())
    }

    /// Checks that no tick was done twice.
    pub(crate) fn check_ticks(&self) {
        let mut done: BTreeMap<i64, &Run> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.outcome == "finished") {
            let before = done.insert(run.tick, run);
            assert!(before.is_none(), "the tick was run twice: {before:?} and {run:?}");
        }
    }

    /// Checks that the table contains every state of every run.
    pub(crate) fn check_states(&self) {
        let told = |event: &str, run: &Run| {
            self.events
                .iter()
                .any(|other| other.event == event && other.token == run.fence && other.worker == run.worker)
        };
        for run in &self.runs {
            assert!(told("granted", run), "nobody told of the grant: {run:?}");
            let (released, lost) = (told("released", run), told("lost", run));
            let expected = match run.outcome.as_str() {
                // A worker that is killed just after its run may not have printed the release.
                "finished" if !released && told("killed", run) => (false, false),
                "finished" => (true, false),
                "abandoned" => (false, false),
                "lost" | "late" => (false, true),
                other => panic!("a run ended as {other}: {run:?}"),
            };
            assert_eq!((released, lost), expected, "{run:?} {:?}", self.events);
            let killed = self.kills().any(|kill| kill.token == run.fence);
            assert_eq!(run.outcome == "abandoned", killed, "{run:?}");
        }
        assert!(self.events.iter().any(|event| event.event == "skipped"), "nobody came too late");
    }

    /// Returns the kills in the middle of a run. Other kills happened just after a run.
    fn kills(&self) -> impl Iterator<Item = &Event> {
        self.events
            .iter()
            .filter(|event| event.event == "killed" && event.detail.starts_with("in the middle"))
    }

    /// Returns the time from each kill in the middle of a run to the start of the next run.
    pub(crate) fn failovers(&self) -> Vec<Duration> {
        let took = self.kills().map(|kill| {
            let next = self.runs.iter().find(|run| run.fence > kill.token);
            let next = next.unwrap_or_else(|| panic!("nobody followed {kill:?}"));
            Duration::from_micros(
                u64::try_from(next.started - kill.happened).expect("it began after the kill"),
            )
        });
        took.collect()
    }
}
