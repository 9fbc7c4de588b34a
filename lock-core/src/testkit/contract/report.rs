//! What came of a run.

use std::fmt;

use tokio::task::JoinError;

/// What came of a run of the suite.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The cases that ran, in order.
    pub ran: Vec<&'static str>,
    /// The cases that the capability of the backend does not call for.
    pub not_applicable: Vec<&'static str>,
    /// The cases that failed, a part of [`ran`](Self::ran).
    pub failures: Vec<Failure>,
}

/// A case that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Its name.
    pub case: &'static str,
    /// What it said.
    pub text: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ran, failed) = (self.ran.len(), self.failures.len());
        write!(f, "{ran} cases ran, {failed} failed, {} not applicable", self.not_applicable.len())?;
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
