//! The report from the tables: the imported lines, the events, and the pauses.

use std::collections::BTreeMap;
use std::fmt;

use crate::common::clock::{Micros, seconds};
use crate::table::{Counts, Event};

/// A period in which no line of a group was imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standstill {
    pub(crate) took: Micros,
    /// The number of killed workers of the group: those killed in the period, and those killed so shortly before it
    /// that they still had a place in the queue for the lock.
    pub(crate) crashes: usize,
}

/// The longest time for which a dead process keeps its place in a queue.
const QUEUE_PLACE_LASTS: Micros = 2_000_000;

#[derive(Debug)]
pub(crate) struct Report {
    counts: Counts,
    /// The number of occurrences of each event.
    events: BTreeMap<String, usize>,
    /// The standstills, the shortest first.
    standstills: Vec<Standstill>,
}

impl Report {
    pub(crate) fn new(counts: Counts, all: &[Event], progress: &[(i64, Micros)]) -> Self {
        let mut events = BTreeMap::new();
        for event in all {
            *events.entry(event.event.clone()).or_default() += 1;
        }
        let killed = all.iter().filter(|event| event.event == "killed");
        let kills: Vec<(i64, Micros)> = killed.map(|event| (event.group, event.happened)).collect();
        let mut standstills = standstills(progress, &kills);
        standstills.sort_unstable();
        Self { counts, events, standstills }
    }

    fn twice(&self) -> i64 {
        self.counts.imported - self.counts.different
    }

    /// Returns whether every task was done, and every line was imported once.
    pub(crate) fn is_good(&self) -> bool {
        let Counts { tasks, done, lines, different, .. } = self.counts;
        done == tasks && different == lines && self.twice() == 0
    }

    fn count(&self, event: &str) -> usize {
        self.events.get(event).copied().unwrap_or(0)
    }
}

/// Returns the standstills: times between two successive lines of a group in which a worker of the group was killed.
pub(crate) fn standstills(progress: &[(i64, Micros)], kills: &[(i64, Micros)]) -> Vec<Standstill> {
    let mut standstills = Vec::new();
    let mut before: BTreeMap<i64, Micros> = BTreeMap::new();
    for (group, happened) in progress {
        let Some(before) = before.insert(*group, *happened) else { continue };
        let counts = |kill: &&(i64, Micros)| {
            kill.0 == *group && (before - QUEUE_PLACE_LASTS..*happened).contains(&kill.1)
        };
        let crashes = kills.iter().filter(counts).count();
        if crashes > 0 {
            standstills.push(Standstill { took: happened - before, crashes });
        }
    }
    standstills
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { tasks, done, lines, different, .. } = self.counts;
        writeln!(f, "tasks done                {done:>7} of {tasks}")?;
        writeln!(f, "lines imported            {different:>7} of {lines}")?;
        writeln!(f, "lines imported again      {:>7}", self.twice())?;
        for (name, event) in [
            ("tasks taken", "taken"),
            ("workers killed", "killed"),
            ("locks lost", "lost"),
            ("late writes refused", "late"),
        ] {
            writeln!(f, "{name:<24}  {:>7}", self.count(event))?;
        }
        if let Some(Standstill { took, crashes }) = self.standstills.last() {
            writeln!(f, "longest standstill        {:>7.3} s, with {crashes} killed", seconds(*took))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standstill_is_of_a_group_whose_workers_were_killed() {
        let ms = |ms: i64| ms * 1_000;
        let progress =
            [(1, ms(0)), (2, ms(1)), (2, ms(2)), (1, ms(50)), (2, ms(3_000)), (1, ms(4_000)), (1, ms(4_001))];
        for (kills, expected) in [
            (vec![], vec![]),
            (vec![(1, ms(3_999))], vec![(3_950, 1), (1, 1)]),
            (vec![(1, ms(60)), (1, ms(70)), (2, ms(2_999))], vec![(2_998, 1), (3_950, 2)]),
            // The workers were killed shortly before, long before, and at no group.
            (vec![(1, ms(2_500)), (-1, ms(2_600))], vec![(3_950, 1), (1, 1)]),
            (vec![(1, ms(4_002))], vec![]),
        ] {
            let kills: Vec<(i64, Micros)> = kills;
            let found = standstills(&progress, &kills);
            let expected: Vec<_> =
                expected.into_iter().map(|(took, crashes)| Standstill { took: ms(took), crashes }).collect();
            assert_eq!(found, expected, "{kills:?}");
        }
    }
}
