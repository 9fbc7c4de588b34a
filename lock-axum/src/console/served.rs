//! Defines the state that the answers of one console share.

use std::sync::Arc;
use std::time::Duration;

use axum_core::response::Response;
use lock_core::clock::{Clock, Moment, wall};
use lock_core::{Finding, LockManager};
use serde::Serialize;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use super::access::Operators;
use super::journal::{Journal, millis};
use super::long_holds;
use super::poll::{Poll, Seen};
use super::problem::{Problem, json};
use super::query::Query;
use super::snapshot::{self, Past};

/// The time for which the findings of the doctor are reused for further viewers.
const FRESH: Duration = Duration::from_secs(2);
/// The largest number of open pages. The number is limited because the locks are sorted for each page after each poll.
const PAGES: usize = 64;

/// The state of the router.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) poll: Arc<Poll>,
    pub(super) operators: Operators,
    pages: Arc<Semaphore>,
    /// The last findings, or the reason why there are none. The mutex is locked while the doctor runs, so that viewers
    /// share one run.
    findings: Mutex<Option<(Moment, Result<Findings, Problem>)>>,
}

#[derive(Debug, Serialize)]
struct Findings {
    time_ms: u64,
    findings: Vec<Finding>,
}

impl Served {
    pub(super) fn new(locks: LockManager, operators: Operators) -> Self {
        let pages = Arc::new(Semaphore::new(PAGES));
        Self { poll: Arc::new(Poll::new(locks)), operators, pages, findings: Mutex::new(None) }
    }

    /// Counts an open page until the permit is dropped.
    pub(super) fn page(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let full =
            |_| Problem::unavailable(format!("{PAGES} pages are open, and no more are served at once"));
        Arc::clone(&self.pages).try_acquire_owned().map_err(full)
    }

    pub(super) fn render(&self, seen: &Seen, query: &Query, read_only: bool) -> String {
        let past = self.poll.read(|journal, now| Past::new(journal, now, query.view));
        snapshot::render(self.poll.locks(), seen, past, query, read_only)
    }

    /// Answers with the findings of the doctor.
    pub(super) async fn doctor(&self) -> Result<Response, Problem> {
        let mut last = self.findings.lock().await;
        let look = match last.take().filter(|(at, _)| Clock::Tokio.now().since(*at) < FRESH) {
            Some(fresh) => fresh,
            None => {
                let found = self.poll.locks().doctor().await;
                let found = found.map(|mut findings| {
                    let long = self.long_holds();
                    let is_told = |finding: &Finding| {
                        long.iter().any(|long| (long.rule, &long.about) == (finding.rule, &finding.about))
                    };
                    findings.retain(|finding| !is_told(finding));
                    findings.extend(long);
                    Findings { time_ms: millis(wall()), findings }
                });
                (Clock::Tokio.now(), found.map_err(Problem::from))
            }
        };
        match &last.insert(look).1 {
            Ok(findings) => Ok(json(findings)),
            Err(problem) => Err(problem.clone()),
        }
    }

    fn long_holds(&self) -> Vec<Finding> {
        let Some(seen) = self.poll.last().filter(|seen| seen.error.is_none()) else { return Vec::new() };
        // The list may be a minute old, so ages are computed for the time of the list.
        let listed = Duration::from_millis(seen.listed_ms.unwrap_or_default());
        long_holds::find(&self.poll.read(Journal::heat), &seen.listed.locks, listed)
    }
}
