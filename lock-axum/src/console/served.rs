//! What the answers of one console share.

use std::sync::Arc;
use std::time::Duration;

use axum_core::response::Response;
use lock_core::clock::{Clock, Moment, wall};
use lock_core::{Finding, LockManager};
use serde::Serialize;
use tokio::sync::Mutex;

use super::access::Operators;
use super::journal::millis;
use super::poll::{Poll, Seen};
use super::problem::{Problem, json};
use super::query::Query;
use super::snapshot::{self, Past};

/// How long the findings of the doctor are shown to further viewers.
const FRESH: Duration = Duration::from_secs(2);

/// The state of the router.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) poll: Arc<Poll>,
    pub(super) operators: Operators,
    /// The last findings. The lock lasts while the doctor looks, so that it looks for all viewers at once.
    findings: Mutex<Option<Findings>>,
}

#[derive(Debug, Serialize)]
struct Findings {
    #[serde(skip)]
    at: Moment,
    time_ms: u64,
    findings: Vec<Finding>,
}

impl Served {
    pub(super) fn new(locks: LockManager, operators: Operators) -> Self {
        Self { poll: Arc::new(Poll::new(locks)), operators, findings: Mutex::new(None) }
    }

    /// Returns what a viewer sees, as JSON without the time.
    pub(super) fn render(&self, seen: &Seen, query: &Query, read_only: bool) -> String {
        let past = self.poll.read(|journal, now| Past::of(journal, now, query.view));
        snapshot::render(self.poll.locks(), seen, past, query, read_only)
    }

    /// Answers with what the doctor finds.
    pub(super) async fn doctor(&self) -> Result<Response, Problem> {
        let mut last = self.findings.lock().await;
        if let Some(last) = last.as_ref().filter(|last| Clock::Tokio.now().since(last.at) < FRESH) {
            return Ok(json(last));
        }
        let findings = self.poll.locks().doctor().await?;
        Ok(json(last.insert(Findings { at: Clock::Tokio.now(), time_ms: millis(wall()), findings })))
    }
}
