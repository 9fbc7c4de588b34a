//! The report from the tables: the scheduler, the time and the duration of each run, and the failovers.

use std::collections::BTreeMap;
use std::fmt;

use crate::common::clock::{Micros, seconds};
use crate::table::{Event, Run};

/// A run that did not finish, and the run after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failover {
    /// The token of the run that did not finish.
    pub(crate) from: i64,
    /// The token of the next run, or `None` if there was no next run.
    pub(crate) to: Option<i64>,
    /// The time until the next run, counted from the death of the worker or from its last sign of life.
    pub(crate) took: Micros,
    /// Whether the process of the first run was killed. Otherwise it was stopped for too long, or cut off from the
    /// store.
    pub(crate) killed: bool,
}

#[derive(Debug)]
pub(crate) struct Report {
    runs: Vec<Run>,
    events: Vec<Event>,
    failovers: Vec<Failover>,
}

impl Report {
    pub(crate) fn new(runs: Vec<Run>, events: Vec<Event>) -> Self {
        let failovers = failovers(&runs, &events);
        Self { runs, events, failovers }
    }

    /// Returns whether the locks worked: no two runs overlapped, no holder was refused, and no tick was finished twice.
    /// Also, another run followed each run that did not finish.
    pub(crate) fn is_good(&self) -> bool {
        overlaps(&self.runs) == 0
            && self.runs.iter().all(|run| run.outcome != "REFUSED")
            && self.finished_twice() == 0
            && self.failovers.iter().all(|failover| failover.to.is_some())
            && self.finished() > 0
    }

    fn finished(&self) -> usize {
        self.runs.iter().filter(|run| run.outcome == "finished").count()
    }

    fn finished_twice(&self) -> usize {
        let mut ticks: BTreeMap<i64, usize> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| run.outcome == "finished") {
            *ticks.entry(run.tick).or_default() += 1;
        }
        ticks.values().filter(|times| **times > 1).count()
    }

    /// Describes how a run ended.
    fn end_of(&self, run: &Run) -> String {
        let Some(failover) = self.failovers.iter().find(|failover| failover.from == run.fence) else {
            return run.outcome.clone();
        };
        let how = if failover.killed { "killed" } else { &run.outcome };
        let next = self.runs.iter().find(|next| Some(next.fence) == failover.to);
        let next = next.map_or("nobody", |next| &next.worker);
        format!("{how}, after {:.2} s followed by {next}", seconds(failover.took))
    }
}

/// Returns the runs that did not finish, and the time until the next run.
pub(crate) fn failovers(runs: &[Run], events: &[Event]) -> Vec<Failover> {
    let mut failovers = Vec::new();
    for (number, run) in runs.iter().enumerate().filter(|(_, run)| run.outcome != "finished") {
        let killed = events.iter().find(|event| event.event == "killed" && event.token == run.fence);
        let (next, since) = (runs.get(number + 1), killed.map_or(run.seen, |killed| killed.happened));
        failovers.push(Failover {
            from: run.fence,
            to: next.map(|next| next.fence),
            took: next.map_or(0, |next| next.started - since),
            killed: killed.is_some(),
        });
    }
    failovers
}

/// Returns how many runs began while the previous run still worked.
pub(crate) fn overlaps(runs: &[Run]) -> usize {
    runs.windows(2).filter(|pair| pair[1].started < pair[0].seen).count()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.runs.first() else { return writeln!(f, "nothing ran") };
        writeln!(f, "   tick   started s  for s  who                     end")?;
        for run in &self.runs {
            writeln!(
                f,
                "{:>7} {:>11.3} {:>6.2}  {:<22}  {}",
                run.tick - first.tick + 1,
                seconds(run.started - first.started),
                seconds(run.seen - run.started),
                run.worker,
                self.end_of(run),
            )?;
        }
        let mut events: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for event in &self.events {
            *events.entry((&event.worker, &event.event)).or_default() += 1;
        }
        writeln!(f, "\nwho                     events")?;
        let mut before = "";
        for ((worker, event), count) in events {
            let end = if before.is_empty() { "" } else { "\n" };
            if worker == before {
                write!(f, ", ")?
            } else {
                write!(f, "{end}{worker:<22}  ")?
            }
            write!(f, "{event} {count}")?;
            before = worker;
        }
        writeln!(f, "\n")?;
        self.summary(f)
    }
}

impl Report {
    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "finished runs          {:>6}", self.finished())?;
        writeln!(f, "ticks finished twice   {:>6}", self.finished_twice())?;
        writeln!(f, "two at once            {:>6}", overlaps(&self.runs))?;
        let refused = |outcome| self.runs.iter().filter(|run| run.outcome == outcome).count();
        writeln!(f, "refused as the holder  {:>6}", refused("REFUSED"))?;
        writeln!(f, "refused as too late    {:>6}", refused("late"))?;
        for (name, killed) in [("failovers after kills", true), ("other failovers", false)] {
            let mut took: Vec<Micros> =
                self.failovers.iter().filter(|one| one.killed == killed).map(|one| one.took).collect();
            took.sort_unstable();
            write!(f, "{name:<21}  {:>6}", took.len())?;
            if let (Some(half), Some(most)) = (took.get(took.len() / 2), took.last()) {
                write!(f, "   {:.2} s in the middle, {:.2} s at most", seconds(*half), seconds(*most))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
