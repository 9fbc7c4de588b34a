//! Defines the report of a run.

use std::collections::BTreeSet;
use std::fmt;

use tokio::task::JoinError;

use super::cases;

/// The results of a run of the suite.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The cases that ran, in order.
    pub ran: Vec<&'static str>,
    /// The cases that the capability of the backend does not require.
    pub not_applicable: Vec<&'static str>,
    /// The cases that ran again, because they had failed while calls were slow. A case is listed once for each further
    /// run.
    pub again: Vec<&'static str>,
    /// The cases that failed. Their names are also in [`ran`](Self::ran).
    pub failures: Vec<Failure>,
}

impl Report {
    /// Checks that every case of the suite passed, and that exactly the cases in `not_applicable` did not apply. So a
    /// test notices if a case no longer applies.
    ///
    /// Each entry of `not_applicable` is the name of one case (`release::a_waiter_is_told`), of a topic with all of its
    /// cases (`fifo::`), or of a variant with all of its cases (`@write`).
    ///
    /// # Panics
    /// Panics when a case failed, or when an entry matches no case. Also panics when a case that is not in the list did
    /// not apply, or a case in the list did apply.
    #[track_caller]
    pub fn assert_complete(&self, not_applicable: &[&str]) {
        assert!(self.failures.is_empty(), "{self}");
        let all: Vec<&'static str> = cases().iter().map(|case| case.name).collect();
        let idle: Vec<_> =
            not_applicable.iter().filter(|entry| !all.iter().any(|case| stands_for(entry, case))).collect();
        assert!(idle.is_empty(), "these stand for no case: {idle:?}");
        let expected: BTreeSet<_> = all
            .into_iter()
            .filter(|case| not_applicable.iter().any(|entry| stands_for(entry, case)))
            .collect();
        let found = BTreeSet::from_iter(self.not_applicable.iter().copied());
        let more: Vec<_> = found.difference(&expected).collect();
        assert!(more.is_empty(), "these did not apply: {more:?}");
        let fewer: Vec<_> = expected.difference(&found).collect();
        assert!(fewer.is_empty(), "these apply by now: {fewer:?}");
    }
}

/// Returns whether an entry of [`assert_complete`](Report::assert_complete) matches `case`.
fn stands_for(entry: &str, case: &str) -> bool {
    match (entry.starts_with('@'), entry.ends_with("::")) {
        (true, _) => case.ends_with(entry),
        (_, true) => case.starts_with(entry),
        _ => case == entry,
    }
}

/// A case that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the case.
    pub case: &'static str,
    /// The message of its panic, or another description of the failure.
    pub text: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ran, failed) = (self.ran.len(), self.failures.len());
        write!(f, "{ran} cases ran, {failed} failed, {} not applicable", self.not_applicable.len())?;
        if !self.again.is_empty() {
            write!(f, "; ran again after slow calls: {}", self.again.join(", "))?;
        }
        for Failure { case, text } in &self.failures {
            write!(f, "\n  {case}: {text}")?;
        }
        Ok(())
    }
}

pub(super) fn panic_text(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "was cancelled".to_owned() };
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().map_or("panicked", |text| text).to_owned(),
    }
}
