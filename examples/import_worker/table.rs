//! The tables: the tasks, their progress, and the workers.

use crate::common::clock::{self, Micros};
use crate::common::database::{Database, Result};

const MAKE: &str = include_str!("tables.sql");
const ADD: &str =
    "INSERT INTO import_tasks (task, task_group, total, checkpoint, fence) VALUES ($1, $2, $3, 0, 0)";
/// Selects the groups with unfinished tasks.
const GROUPS: &str =
    "SELECT DISTINCT task_group FROM import_tasks WHERE checkpoint < total ORDER BY task_group";
const UNFINISHED: &str =
    "SELECT task FROM import_tasks WHERE task_group = $1 AND checkpoint < total ORDER BY task LIMIT 1";
/// Takes a task. Writes of earlier workers are refused from then on, so the checkpoint that is read next stays current.
const CLAIM: &str = "UPDATE import_tasks SET fence = $2 WHERE task = $1 AND fence <= $2";
const CHECKPOINT: &str = "SELECT checkpoint, total FROM import_tasks WHERE task = $1";
/// Moves the checkpoint, if no later holder of the lock has written.
const MOVE: &str = "UPDATE import_tasks SET checkpoint = $3 WHERE task = $1 AND fence <= $2";
/// Moves the checkpoint without a comparison of tokens, so late holders can write too.
const MOVE_CARELESSLY: &str = "UPDATE import_tasks SET checkpoint = $2 WHERE task = $1";
const IMPORT: &str =
    "INSERT INTO import_lines (task, line, worker, token, happened) VALUES ($1, $2, $3, $4, $5)";
const AT: &str = "INSERT INTO import_workers (name, task_group) VALUES ($1, $2) \
    ON CONFLICT (name) DO UPDATE SET task_group = excluded.task_group";
const WAS_AT: &str = "SELECT task_group FROM import_workers WHERE name = $1";
const NOTE: &str =
    "INSERT INTO import_events (happened, worker, event, task_group, token) VALUES ($1, $2, $3, $4, $5)";
const EVENTS: &str =
    "SELECT happened, worker, event, task_group, token FROM import_events ORDER BY happened, worker";
/// Selects the group and the time of each imported line, ordered by time.
const PROGRESS: &str = "SELECT t.task_group, l.happened FROM import_lines l JOIN import_tasks t ON t.task = l.task \
    ORDER BY l.happened";
const COUNTS: &str = "SELECT (SELECT count(*) FROM import_tasks), \
    (SELECT count(*) FROM import_tasks WHERE checkpoint = total), \
    (SELECT CAST(sum(total) AS BIGINT) FROM import_tasks), (SELECT count(*) FROM import_lines), \
    (SELECT count(*) FROM (SELECT DISTINCT task, line FROM import_lines) AS different)";

/// The progress of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) checkpoint: i64,
    pub(crate) total: i64,
}

/// The worker that holds the lock, and its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    pub(crate) worker: &'a str,
    pub(crate) token: i64,
}

/// An event of a worker at a group of tasks.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) happened: Micros,
    pub(crate) worker: String,
    pub(crate) event: String,
    pub(crate) group: i64,
    pub(crate) token: i64,
}

/// The number of lines to import, and the number of imported lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) tasks: i64,
    pub(crate) done: i64,
    /// The lines of all tasks.
    pub(crate) lines: i64,
    /// The number of imports: a line that was imported twice counts twice.
    pub(crate) imported: i64,
    /// The number of different imported lines.
    pub(crate) different: i64,
}

#[derive(Debug)]
pub(crate) struct Table(Database);

impl Table {
    pub(crate) async fn open(place: &str) -> Result<Self> {
        Ok(Self(Database::open(place).await?))
    }

    pub(crate) fn database(&self) -> &Database {
        &self.0
    }

    /// Creates the tables or empties them. There are `groups` groups, each with `tasks` tasks of `lines` lines.
    pub(crate) async fn make(&self, groups: i64, tasks: i64, lines: i64) -> Result<()> {
        self.0.script(MAKE).await?;
        for task in 0..groups * tasks {
            self.0.change(ADD, &[task.into(), (task % groups).into(), lines.into()]).await?;
        }
        Ok(())
    }

    /// Returns the groups with unfinished tasks.
    pub(crate) async fn groups(&self) -> Result<Vec<i64>> {
        Ok(self.0.rows(GROUPS, &[]).await?.iter().map(|row| row.number(0)).collect())
    }

    /// Returns the first unfinished task of a group.
    pub(crate) async fn unfinished(&self, group: i64) -> Result<Option<i64>> {
        Ok(self.0.rows(UNFINISHED, &[group.into()]).await?.first().map(|row| row.number(0)))
    }

    /// Takes a task, and returns its progress, or `None` if a later holder has taken the task.
    pub(crate) async fn claim(&self, task: i64, token: i64) -> Result<Option<Found>> {
        if self.0.change(CLAIM, &[task.into(), token.into()]).await? == 0 {
            return Ok(None);
        }
        let rows = self.0.rows(CHECKPOINT, &[task.into()]).await?;
        Ok(rows.first().map(|row| Found { checkpoint: row.number(0), total: row.number(1) }))
    }

    /// Imports a line and moves the checkpoint to it, in one transaction. Returns `false` if a later holder has the
    /// task.
    pub(crate) async fn import(
        &self,
        task: i64,
        line: i64,
        holder: Holder<'_>,
        compare: bool,
    ) -> Result<bool> {
        let (fenced, careless) =
            ([task.into(), holder.token.into(), line.into()], [task.into(), line.into()]);
        let first = if compare { (MOVE, &fenced[..]) } else { (MOVE_CARELESSLY, &careless[..]) };
        let import =
            [task.into(), line.into(), holder.worker.into(), holder.token.into(), clock::now().into()];
        self.0.all_if_first(&[first, (IMPORT, &import[..])]).await
    }

    /// Records that a worker begins to work at a group.
    pub(crate) async fn at(&self, name: &str, group: i64) -> Result<()> {
        self.0.change(AT, &[name.into(), group.into()]).await.map(drop)
    }

    /// Returns the last known group of a worker.
    pub(crate) async fn was_at(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.0.rows(WAS_AT, &[name.into()]).await?.first().map(|row| row.number(0)))
    }

    pub(crate) async fn note(&self, event: &Event) -> Result<()> {
        let Event { happened, worker, event, group, token } = event;
        let values = [
            (*happened).into(),
            worker.as_str().into(),
            event.as_str().into(),
            (*group).into(),
            (*token).into(),
        ];
        self.0.change(NOTE, &values).await.map(drop)
    }

    /// Returns all events, in the order in which they happened.
    pub(crate) async fn events(&self) -> Result<Vec<Event>> {
        let rows = self.0.rows(EVENTS, &[]).await?;
        let event = |row: &crate::common::database::Row| Event {
            happened: row.number(0),
            worker: row.text(1).to_owned(),
            event: row.text(2).to_owned(),
            group: row.number(3),
            token: row.number(4),
        };
        Ok(rows.iter().map(event).collect())
    }

    /// Returns the group and the time of each imported line, ordered by time.
    pub(crate) async fn progress(&self) -> Result<Vec<(i64, Micros)>> {
        Ok(self.0.rows(PROGRESS, &[]).await?.iter().map(|row| (row.number(0), row.number(1))).collect())
    }

    pub(crate) async fn counts(&self) -> Result<Counts> {
        let rows = self.0.rows(COUNTS, &[]).await?;
        let row = rows.first().ok_or("a count is always a row")?;
        let [tasks, done, lines, imported, different] = [0, 1, 2, 3, 4].map(|column| row.number(column));
        Ok(Counts { tasks, done, lines, imported, different })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::database::Place;

    #[tokio::test]
    async fn whoever_had_a_task_before_writes_nothing_more() {
        let place = Place::temporary("import-table");
        let table = Table::open(&place.name).await.expect("a file");
        table.make(1, 1, 10).await.expect("the tables");
        let (before, after) = (Holder { worker: "a", token: 5 }, Holder { worker: "b", token: 9 });
        let import = |line, holder| table.import(0, line, holder, true);
        assert_eq!(
            table.claim(0, before.token).await.expect("a database").expect("it is free").checkpoint,
            0
        );
        assert!(import(1, before).await.expect("a database"));
        // After the claim, the checkpoint does not change.
        assert_eq!(
            table.claim(0, after.token).await.expect("a database").expect("a larger token").checkpoint,
            1
        );
        assert!(!import(2, before).await.expect("a database"));
        assert!(table.claim(0, before.token).await.expect("a database").is_none());
        assert!(import(2, after).await.expect("a database"));
        let counts = table.counts().await.expect("a database");
        assert_eq!((counts.imported, counts.different), (2, 2));
    }
}
