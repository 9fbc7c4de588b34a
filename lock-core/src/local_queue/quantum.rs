//! Limits how long a process keeps a grant while others wait elsewhere, that is, in other processes.

use std::time::Duration;

use crate::clock::Moment;

/// How many hand-offs a process may make on one grant while others wait elsewhere. [`QUANTUM`] limits the time.
const HANDOFFS: u32 = 64;
const QUANTUM: Duration = Duration::from_millis(10);

/// The remaining hand-offs of a process on one grant. If no one waits elsewhere, there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantum {
    others: Option<Others>,
}

/// The time limit of the request that asks the store whether other processes wait. Hand-offs continue until the answer,
/// and for at most this time.
pub(crate) const QUESTION_TIMEOUT: Duration = Duration::from_millis(100);

/// The limits that apply because others wait elsewhere, or may wait.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Others {
    /// The time after which no hand-off is made.
    until: Moment,
    /// The number of remaining hand-offs.
    left: u32,
    /// Whether the store has answered that others wait.
    answered: bool,
}

impl Quantum {
    /// Records that others wait elsewhere, or may wait. The quantum starts with the first call of this method, not with
    /// the grant.
    pub(super) fn contend(&mut self, now: Moment) {
        self.others.get_or_insert(Others { until: now.plus(QUANTUM), left: HANDOFFS, answered: false });
    }

    /// Records that a request at `now` asks the store whether others wait. Hand-offs continue until the answer.
    pub(super) fn asked(&mut self, now: Moment) {
        self.goes_on_until(now.plus(QUESTION_TIMEOUT));
    }

    /// Records the answer, received at `now`, that no one waited elsewhere. Another process may have begun to wait
    /// since then, so a new quantum begins. The new quantum lasts at least as long as the request took.
    pub(super) fn nobody_waited(&mut self, took: Duration, now: Moment) {
        self.goes_on_until(now.plus(took.max(QUANTUM)));
    }

    /// Starts a quantum that is limited by time only. A limit on hand-offs could end the quantum long before `until`.
    fn goes_on_until(&mut self, until: Moment) {
        self.others = Some(Others { until, left: u32::MAX, answered: false });
    }

    /// Records the answer that others wait. This ends the quantum.
    pub(super) fn others_waited(&mut self, now: Moment) {
        self.others = Some(Others { until: now, left: 0, answered: true });
    }

    /// Returns whether the quantum is over at `now`, and the store has not answered that others wait.
    pub(super) fn is_open_question(self, now: Moment) -> bool {
        self.is_over(now) && self.others.is_some_and(|others| !others.answered)
    }

    pub(super) fn is_contended(self) -> bool {
        self.others.is_some()
    }

    pub(super) fn is_over(self, now: Moment) -> bool {
        self.others.is_some_and(|others| others.left == 0 || others.until.is_past(now))
    }

    pub(super) fn count_handoff(&mut self) {
        if let Some(others) = &mut self.others {
            others.left = others.left.saturating_sub(1);
        }
    }
}

/// Decides after which quanta the process asks the store whether others wait. This is used if the store does not notify
/// holders of waiters elsewhere.
///
/// The process keeps the key while it waits for the answer. So if the answer is that others wait, or if no answer
/// arrives, the next quanta end without a request: 1 quantum after the first such request, then 3, then 7, and then 15
/// each time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Questions {
    /// How many quanta after the last request end without another request.
    pause: u8,
    /// The number of these quanta that remain.
    left: u8,
}

impl Questions {
    const LONGEST: u8 = 15;

    /// Returns whether to ask the store at the end of this quantum. If not, counts this quantum in `left`.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_due
    }

    /// Records that the store is asked. The pause before the next request becomes longer, except after the answer that
    /// no one waits.
    pub(super) fn asked(&mut self) {
        self.pause = (2 * self.pause + 1).min(Self::LONGEST);
        self.left = self.pause;
    }

    /// Records the answer that no one waited.
    pub(super) fn nobody_waited(&mut self) {
        *self = Self::default();
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
        quantum.nobody_waited(Duration::from_millis(1), at(10));
        for _ in 0..10 * HANDOFFS {
            quantum.count_handoff();
        }
        assert!(quantum.is_contended() && !quantum.is_over(at(19)) && quantum.is_over(at(20)));
        quantum.nobody_waited(Duration::from_millis(50), at(70));
        assert!(!quantum.is_over(at(119)) && quantum.is_over(at(120)), "as long as the question");
    }

    #[test]
    fn after_each_answer_that_others_wait_fewer_are_asked_for() {
        let mut questions = Questions::default();
        let mut asked_at = Vec::new();
        for turn in 0..40 {
            if questions.is_due() {
                asked_at.push(turn);
                questions.asked();
            }
        }
        assert_eq!(asked_at, [0, 2, 6, 14, 30], "the pauses are 1, 3, 7, 15, 15");
        while !questions.is_due() {}
        assert!(questions.is_due(), "it was due and nobody asked: the next one does");
        for _ in 0..2 {
            questions.nobody_waited();
            assert!(questions.is_due(), "each time");
            questions.asked();
        }
    }

    #[test]
    fn a_quantum_goes_on_while_the_store_is_asked_and_no_longer() {
        let start = Clock::Suspend.now();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut quantum = Quantum::default();
        assert!(!quantum.is_open_question(start), "it has not begun");
        quantum.contend(start);
        assert!(!quantum.is_open_question(at(9)) && quantum.is_open_question(at(10)));
        quantum.asked(at(10));
        assert!(!quantum.is_over(at(109)) && quantum.is_over(at(110)), "no answer");
        quantum.others_waited(at(50));
        assert!(quantum.is_over(at(50)) && !quantum.is_open_question(at(50)), "it is known");
        quantum.contend(at(60));
        assert!(quantum.is_over(at(60)), "still");
    }
}
