//! How long a process may keep a grant that others want.

use std::time::Duration;

use crate::clock::Moment;

/// How many hand-offs a process may make on one grant while others wait elsewhere, and for how long.
const HANDOFFS: u32 = 64;
const QUANTUM: Duration = Duration::from_millis(10);

/// What is left of a process's hand-offs on one grant. Without waiters elsewhere there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantum {
    others: Option<Others>,
}

/// Waiters elsewhere, known or possible.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Others {
    /// Since when they may wait.
    since: Moment,
    /// How many hand-offs are left.
    left: u32,
}

impl Quantum {
    /// Notes that others wait elsewhere, or may. The quantum begins with that news, not with the grant.
    pub(super) fn contend(&mut self, now: Moment) {
        self.others.get_or_insert(Others { since: now, left: HANDOFFS });
    }

    /// Notes the answer, at `now`, that nobody waited elsewhere. As that may have changed since, another quantum begins;
    /// but a hand-off may be far quicker than the question, so time alone ends it.
    pub(super) fn nobody_waited(&mut self, now: Moment) {
        self.others = Some(Others { since: now, left: u32::MAX });
    }

    pub(super) fn is_contended(self) -> bool {
        self.others.is_some()
    }

    pub(super) fn is_over(self, now: Moment) -> bool {
        self.others.is_some_and(|others| others.left == 0 || now.since(others.since) >= QUANTUM)
    }

    pub(super) fn count_handoff(&mut self) {
        if let Some(others) = &mut self.others {
            others.left = others.left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_quantum_ends_by_handoffs_or_by_time_once_others_wait() {
        let start = Clock::Suspend.now();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut quantum = Quantum::default();
        for _ in 0..10 * HANDOFFS {
            quantum.count_handoff();
        }
        assert!(!quantum.is_over(at(60_000)), "nobody else waits");
        quantum.contend(at(60_000));
        assert!(!quantum.is_over(at(60_009)) && quantum.is_over(at(60_010)), "it begins with the news");
        quantum.contend(at(60_009));
        assert!(quantum.is_over(at(60_010)), "the first news counts");

        let mut quantum = Quantum::default();
        quantum.contend(start);
        for _ in 1..HANDOFFS {
            quantum.count_handoff();
        }
        assert!(!quantum.is_over(start));
        quantum.count_handoff();
        assert!(quantum.is_over(start));
    }

    #[test]
    fn the_answer_that_nobody_waits_elsewhere_begins_a_quantum_that_ends_by_time_alone() {
        let start = Clock::Suspend.now();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut quantum = Quantum::default();
        quantum.contend(start);
        quantum.nobody_waited(at(10));
        for _ in 0..10 * HANDOFFS {
            quantum.count_handoff();
        }
        assert!(quantum.is_contended() && !quantum.is_over(at(19)) && quantum.is_over(at(20)));
    }
}
