//! The tables: the ticks, their runs, and the events of the locks.

use crate::common::clock::Micros;
use crate::common::database::{Database, Result, Row, Value};

const MAKE: &str = include_str!("tables.sql");
const ADD: &str = "INSERT INTO scheduler_jobs (job, done, fence, steps) VALUES ($1, $2, 0, 0)";
const DONE: &str = "SELECT done FROM scheduler_jobs WHERE job = $1";
/// The three statements that work for a job. A statement changes no row if a later holder of the lock has written.
const BEGIN: &str = "UPDATE scheduler_jobs SET fence = $2 WHERE job = $1 AND fence < $2 AND done < $3";
const STEP: &str = "UPDATE scheduler_jobs SET steps = steps + 1 WHERE job = $1 AND fence = $2";
const FINISH: &str = "UPDATE scheduler_jobs SET done = $3 WHERE job = $1 AND fence = $2 AND done < $3";
/// Marks earlier runs as abandoned. The next scheduler executes this statement.
const ABANDON: &str =
    "UPDATE scheduler_runs SET outcome = 'abandoned' WHERE job = $1 AND fence < $2 AND outcome = 'running'";
const NOTE: &str = "INSERT INTO scheduler_runs (job, fence, tick, worker, started, seen, outcome) \
    VALUES ($1, $2, $3, $4, $5, $6, 'running')";
const SEEN: &str = "UPDATE scheduler_runs SET seen = $3 WHERE job = $1 AND fence = $2";
const END: &str = "UPDATE scheduler_runs SET seen = $3, outcome = $4 WHERE job = $1 AND fence = $2";
/// Marks a run as lost after its body was dropped. The time of its last step is already recorded.
const LOST: &str = "UPDATE scheduler_runs SET outcome = 'lost' \
    WHERE job = $1 AND worker = $2 AND outcome IN ('running', 'abandoned')";
const RUNS: &str =
    "SELECT fence, tick, worker, started, seen, outcome FROM scheduler_runs WHERE job = $1 ORDER BY fence";
const RUN: &str = "SELECT fence, tick, worker, started, seen, outcome FROM scheduler_runs \
    WHERE job = $1 AND fence = $2";
const LAST: &str = "SELECT fence, tick, worker, started, seen, outcome FROM scheduler_runs \
    WHERE job = $1 ORDER BY fence DESC LIMIT 1";
const EVENT: &str =
    "INSERT INTO scheduler_events (happened, worker, event, token, detail) VALUES ($1, $2, $3, $4, $5)";
const GRANTED: &str = "SELECT 1 FROM scheduler_events WHERE token = $1 AND event = 'granted'";
const EVENTS: &str =
    "SELECT happened, worker, event, token, detail FROM scheduler_events ORDER BY happened, worker";

/// One run of a job for a tick, under the lock with the token `fence`.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) fence: i64,
    pub(crate) tick: i64,
    pub(crate) worker: String,
    pub(crate) started: Micros,
    /// The time of the last step.
    pub(crate) seen: Micros,
    pub(crate) outcome: String,
}

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) happened: Micros,
    pub(crate) worker: String,
    pub(crate) event: String,
    /// The token of the lock of the event, or 0 if there is none.
    pub(crate) token: i64,
    pub(crate) detail: String,
}

#[derive(Debug)]
pub(crate) struct Table {
    database: Database,
    job: String,
}

impl Table {
    pub(crate) async fn open(place: &str, job: &str) -> Result<Self> {
        Ok(Self { database: Database::open(place).await?, job: job.to_owned() })
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    fn job(&self) -> Value {
        self.job.as_str().into()
    }

    /// Creates the tables or empties them. Ticks up to `done` count as done.
    pub(crate) async fn make(&self, done: i64) -> Result<()> {
        self.database.script(MAKE).await?;
        self.database.change(ADD, &[self.job(), done.into()]).await.map(drop)
    }

    /// Returns the last tick whose run is over.
    pub(crate) async fn done(&self) -> Result<i64> {
        let rows = self.database.rows(DONE, &[self.job()]).await?;
        Ok(rows.first().ok_or("the job is not in the table")?.number(0))
    }

    /// Records that `run` begins. Returns `false` if the tick is done already, or a later holder has written.
    pub(crate) async fn begin(&self, run: &Run) -> Result<bool> {
        let job = || self.job();
        let begin = [job(), run.fence.into(), run.tick.into()];
        let note = [
            job(),
            run.fence.into(),
            run.tick.into(),
            run.worker.as_str().into(),
            run.started.into(),
            run.seen.into(),
        ];
        let statements = [(BEGIN, &begin[..]), (ABANDON, &begin[..2]), (NOTE, &note[..])];
        self.database.all_if_first(&statements).await
    }

    /// Does a step of the job. Returns `false` if a later holder has written.
    pub(crate) async fn step(&self, run: &Run, now: Micros) -> Result<bool> {
        let step = [self.job(), run.fence.into()];
        let seen = [self.job(), run.fence.into(), now.into()];
        self.database.all_if_first(&[(STEP, &step[..]), (SEEN, &seen[..])]).await
    }

    /// Records that the job is done for this tick. Returns `false` if a later holder has written.
    pub(crate) async fn finish(&self, run: &Run, now: Micros) -> Result<bool> {
        let finish = [self.job(), run.fence.into(), run.tick.into()];
        let end = [self.job(), run.fence.into(), now.into(), "finished".into()];
        self.database.all_if_first(&[(FINISH, &finish[..]), (END, &end[..])]).await
    }

    /// Records that one of the statements above refused a run.
    pub(crate) async fn refused(&self, run: &Run, now: Micros, outcome: &str) -> Result<()> {
        let end = [self.job(), run.fence.into(), now.into(), outcome.into()];
        self.database.change(END, &end).await.map(drop)
    }

    /// Records that `worker` has lost the lock of its run.
    pub(crate) async fn lost(&self, worker: &str) -> Result<()> {
        self.database.change(LOST, &[self.job(), worker.into()]).await.map(drop)
    }

    pub(crate) async fn note(&self, event: &Event) -> Result<()> {
        let Event { happened, worker, event, token, detail } = event;
        let values = [(*happened).into(), worker.as_str().into(), event.as_str().into(), (*token).into()];
        let values = [&values[..], &[detail.as_str().into()]].concat();
        self.database.change(EVENT, &values).await.map(drop)
    }

    /// Returns all runs, in the order of their tokens.
    pub(crate) async fn runs(&self) -> Result<Vec<Run>> {
        let rows = self.database.rows(RUNS, &[self.job()]).await?;
        Ok(rows.iter().map(Run::of).collect())
    }

    /// Returns the run with a token.
    pub(crate) async fn run(&self, fence: i64) -> Result<Option<Run>> {
        Ok(self.database.rows(RUN, &[self.job(), fence.into()]).await?.first().map(Run::of))
    }

    /// Returns the run with the largest token.
    pub(crate) async fn last_run(&self) -> Result<Option<Run>> {
        Ok(self.database.rows(LAST, &[self.job()]).await?.first().map(Run::of))
    }

    /// Returns whether the grant with a token is recorded.
    pub(crate) async fn is_granted(&self, token: i64) -> Result<bool> {
        Ok(!self.database.rows(GRANTED, &[token.into()]).await?.is_empty())
    }

    /// Returns all events, in the order in which they happened.
    pub(crate) async fn events(&self) -> Result<Vec<Event>> {
        Ok(self.database.rows(EVENTS, &[]).await?.iter().map(Event::of).collect())
    }
}

impl Run {
    fn of(row: &Row) -> Self {
        Self {
            fence: row.number(0),
            tick: row.number(1),
            worker: row.text(2).to_owned(),
            started: row.number(3),
            seen: row.number(4),
            outcome: row.text(5).to_owned(),
        }
    }
}

impl Event {
    fn of(row: &Row) -> Self {
        Self {
            happened: row.number(0),
            worker: row.text(1).to_owned(),
            event: row.text(2).to_owned(),
            token: row.number(3),
            detail: row.text(4).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::database::Place;

    fn run(fence: i64, tick: i64) -> Run {
        let (worker, outcome) = ("one".to_owned(), "running".to_owned());
        Run { fence, tick, worker, started: 0, seen: 0, outcome }
    }

    #[tokio::test]
    async fn a_late_holder_and_a_tick_that_is_done_are_refused() {
        let place = Place::temporary("scheduler-table");
        let table = Table::open(&place.name, "job").await.expect("a file");
        table.make(0).await.expect("the tables");
        let (first, second) = (run(5, 1), run(9, 1));
        assert!(table.begin(&first).await.expect("a database"));
        assert!(table.step(&first, 1).await.expect("a database"));
        assert!(table.begin(&second).await.expect("a database"));
        for refused in
            [table.begin(&run(7, 1)).await, table.step(&first, 2).await, table.finish(&first, 2).await]
        {
            assert!(!refused.expect("a database"), "a later holder was here");
        }
        assert!(table.finish(&second, 3).await.expect("a database"));
        assert!(!table.begin(&run(11, 1)).await.expect("a database"), "the tick is done");
        assert!(table.begin(&run(12, 2)).await.expect("a database"));
        let outcomes: Vec<_> =
            table.runs().await.expect("a database").into_iter().map(|run| run.outcome).collect();
        assert_eq!(outcomes, ["abandoned", "finished", "running"]);
    }
}
