//! Queues the requests for one key until a call may be sent.

use std::borrow::Cow;
use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::answer::Answer;
use super::parameter::micros_of;
use crate::backend::postgres::error::Failure;
use crate::backend::{Ask, Claim, Queue};
use crate::key::Key;

/// The maximum number of requests in one call. The number is small, so that the call does not occupy the row of the key
/// and the connection for long.
pub(super) const PER_CALL: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// An attempt at one key.
    Attempt,
    /// An attempt at several keys. Such a request has its own entry in `StuckKeys`, whose name contains all keys.
    AttemptAll,
    /// A heartbeat of a queued claim.
    Heartbeat,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) owner: String,
    pub(super) record: String,
    pub(super) mode: Cow<'static, str>,
    pub(super) ttl: i64,
    pub(super) fenced: bool,
    pub(super) room: Option<i32>,
    pub(super) barges: bool,
}

/// A request that waits for the next call.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    pub(super) number: u64,
    pub(super) kind: RequestKind,
    pub(super) asked: Asked,
    pub(super) told: oneshot::Sender<Result<Answer, Failure>>,
}

/// The requests for one key, in their order of arrival.
#[derive(Debug, Default)]
pub(super) struct UnsentRequests {
    last: u64,
    waiting: VecDeque<QueuedRequest>,
}

impl UnsentRequests {
    /// Adds a request, and returns its number.
    pub(super) fn add(
        &mut self,
        kind: RequestKind,
        asked: Asked,
        told: oneshot::Sender<Result<Answer, Failure>>,
    ) -> u64 {
        self.last += 1;
        self.waiting.push_back(QueuedRequest { number: self.last, kind, asked, told });
        self.last
    }

    /// Removes and returns the first request, and other requests of the same kind. If `alone` is given, returns only
    /// the request with that number, which checks whether the row is free.
    pub(super) fn take(&mut self, alone: Option<u64>) -> Vec<QueuedRequest> {
        if let Some(number) = alone {
            return self.withdraw(number).into_iter().collect();
        }
        let Some(kind) = self.waiting.front().map(|first| first.kind) else { return Vec::new() };
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        for one in self.waiting.drain(..) {
            if one.kind == kind && taken.len() < PER_CALL { taken.push(one) } else { left.push_back(one) }
        }
        self.waiting = left;
        taken
    }

    /// Removes and returns the request with this number.
    pub(super) fn withdraw(&mut self, number: u64) -> Option<QueuedRequest> {
        let at = self.waiting.iter().position(|one| one.number == number)?;
        self.waiting.remove(at)
    }
}

/// Returns the name of a claim's entry in `StuckKeys`. A claim of several keys has a separate entry, because it is
/// unknown which of its keys is stuck.
pub(super) fn name_of(claim: &Claim) -> String {
    match claim.more.is_empty() {
        true => claim.key.as_str().to_owned(),
        false => claim.keys().map(Key::as_str).collect::<Vec<_>>().join("\0"),
    }
}

impl Asked {
    pub(super) fn new(claim: &Claim, ask: Ask) -> Self {
        Self {
            owner: claim.owner.token().as_str().to_owned(),
            record: claim.record.to_record(),
            mode: claim.mode.code(),
            ttl: micros_of(claim.ttl),
            fenced: claim.fencing,
            room: match ask {
                Ask::Probe | Ask::Try => None,
                Ask::Enqueue { room } => {
                    Some(room.and_then(|room| i32::try_from(room).ok()).unwrap_or(i32::MAX))
                }
            },
            barges: claim.queue == Queue::Barging,
        }
    }
}
