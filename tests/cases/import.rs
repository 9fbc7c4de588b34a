//! Checks the example `import_worker` by its tables, while its workers are killed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rows;

pub(crate) const IMPORT: &str = env!("CARGO_BIN_EXE_import_worker");

/// The longest time for which a dead process keeps its place in a queue.
const PLACE: Duration = Duration::from_secs(2);
/// An imported line. Times are microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
struct Line {
    group: i64,
    task: i64,
    line: i64,
    token: i64,
    happened: i64,
}

/// The contents of the tables at the end.
pub(crate) struct Tables {
    /// The imported lines, ordered by time.
    lines: Vec<Line>,
    /// The group and the time of each crash.
    kills: Vec<(i64, i64)>,
    unfinished: usize,
    /// The number of lines to import.
    total: i64,
}

impl Tables {
    pub(crate) fn read(file: &str) -> Self {
        let lines = "SELECT t.task_group, l.task, l.line, l.token, l.happened FROM import_lines l \
                     JOIN import_tasks t ON t.task = l.task ORDER BY l.happened";
        let lines = rows(file, lines, |row| {
            let (group, task, line) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Line { group, task, line, token: row.get(3)?, happened: row.get(4)? })
        });
        let kills = "SELECT task_group, happened FROM import_events WHERE event = 'killed'";
        let kills = rows(file, kills, |row| Ok((row.get(0)?, row.get(1)?)));
        let unfinished = rows(file, "SELECT task FROM import_tasks WHERE checkpoint <> total", |_| Ok(()));
        let total = rows(file, "SELECT sum(total) FROM import_tasks", |row| row.get(0));
        Self {
            lines: lines.expect("the lines"),
            kills: kills.expect("the crashes"),
            unfinished: unfinished.expect("the tasks").len(),
            total: total.expect("the tasks")[0],
        }
    }

    pub(crate) fn crashes(&self) -> usize {
        self.kills.len()
    }

    /// Checks that every task is done, that each line was imported once and in order, and that the tokens grew.
    pub(crate) fn check_once(&self) -> Result<(), String> {
        if self.unfinished > 0 {
            return Err(format!("{} tasks are not done", self.unfinished));
        }
        let mut lines = self.lines.clone();
        lines.sort_by_key(|line| (line.task, line.line));
        if let Some(pair) =
            lines.windows(2).find(|pair| (pair[0].task, pair[0].line) == (pair[1].task, pair[1].line))
        {
            return Err(format!("a line was imported twice: {pair:?}"));
        }
        // The lines are sorted by number now.
        let out_of_order = |pair: &&[Line]| {
            pair[0].task == pair[1].task
                && (pair[0].token > pair[1].token || pair[0].line + 1 != pair[1].line)
        };
        if let Some(pair) = lines.windows(2).find(out_of_order) {
            return Err(format!("out of order: {pair:?}"));
        }
        if i64::try_from(lines.len()) != Ok(self.total) {
            return Err(format!("{} of {} lines were imported", lines.len(), self.total));
        }
        Ok(())
    }

    /// Checks that no group stopped for longer than `each` for each of its workers that was killed in that time, or
    /// that still had a place in the queue then. A group without such a worker must not stop for longer than `each`.
    pub(crate) fn check_standstills(&self, each: Duration) {
        let place = i64::try_from(PLACE.as_micros()).expect("2 s");
        for Pause { group, begin, end } in self.pauses() {
            let counts = |kill: &&(i64, i64)| kill.0 == group && (begin - place..end).contains(&kill.1);
            let crashes = self.kills.iter().filter(counts).count();
            let (took, allowed) = (between(begin, end), each * u32::try_from(crashes.max(1)).expect("few"));
            assert!(took < allowed, "group {group} stood still for {took:?} with {crashes} crashes");
        }
    }

    /// Returns the times between two successive lines of a group.
    fn pauses(&self) -> Vec<Pause> {
        let mut before = BTreeMap::new();
        let pause = |line: &Line| {
            let begin = before.insert(line.group, line.happened)?;
            Some(Pause { group: line.group, begin, end: line.happened })
        };
        self.lines.iter().filter_map(pause).collect()
    }
}

/// A period in which no line of a group was imported.
#[derive(Clone, Copy, Debug)]
struct Pause {
    group: i64,
    begin: i64,
    end: i64,
}

fn between(begin: i64, end: i64) -> Duration {
    Duration::from_micros(u64::try_from(end - begin).expect("in the order of time"))
}
