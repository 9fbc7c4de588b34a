//! Records one hold, from its grant to its release or loss.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use super::labels::ReleaseError;
use super::metrics::Meter;

/// The record of one hold.
///
/// A hold is reported only after its guard has reached the caller. So two sorts of grants are never reported: a grant
/// of one key that becomes a part of a lock of several keys, and a grant whose required fencing token is missing. An
/// open record counts as a held lock until it is closed. Only the first call that closes the record returns its
/// subject.
#[derive(Debug, Default)]
pub(crate) struct HoldRecorder {
    phase: AtomicU8,
    subject: OnceLock<Subject>,
    reported_long: AtomicBool,
    deferred_long: AtomicBool,
}

const IDLE: u8 = 0;
const OPEN: u8 = 1;
const CLOSED: u8 = 2;

/// The template and the meter that the reports of a hold use.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) template: Option<Cow<'static, str>>,
    pub(crate) meter: Meter,
}

/// The values that the record of a request passes to the record of the hold.
#[derive(Debug)]
pub(crate) struct HoldStart {
    pub(crate) meter: Meter,
    /// The time from the request to the grant, or `None` if no report needs it.
    pub(crate) waited: Option<Duration>,
}

impl HoldRecorder {
    /// Sets the subject of the reports, and returns it.
    pub(crate) fn describe(&self, template: Option<Cow<'static, str>>, meter: Meter) -> &Subject {
        self.subject.get_or_init(|| Subject { template, meter })
    }

    /// Returns the subject, or `None` if no caller has had the guard yet.
    pub(crate) fn subject(&self) -> Option<&Subject> {
        self.subject.get()
    }

    /// Opens the record. Returns `false` if the record is closed already, because the lock was lost before the guard
    /// reached the caller.
    pub(crate) fn open(&self) -> bool {
        self.phase.compare_exchange(IDLE, OPEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Closes the record. Returns the subject if this call closed an open record.
    pub(crate) fn close(&self) -> Option<&Subject> {
        let was_open = self.phase.swap(CLOSED, Ordering::AcqRel) == OPEN;
        self.subject().filter(|_| was_open)
    }

    /// Continues the record `before`, and closes that record without a report, because the hold has not ended. Call
    /// this function before another thread can access this record.
    pub(crate) fn continue_from(&self, before: &Self) {
        let Some(subject) = before.subject() else { return };
        if before.phase.swap(CLOSED, Ordering::AcqRel) != OPEN {
            subject.meter.hold_began();
        }
        self.describe(subject.template.clone(), subject.meter.clone());
        self.reported_long.store(before.reported_long.load(Ordering::Relaxed), Ordering::Relaxed);
        self.phase.store(OPEN, Ordering::Release);
    }

    /// Returns whether the timer for the report of a long hold is no longer needed. Either the report was made, or it
    /// was deferred until the guard reaches its caller.
    pub(crate) fn is_done_with_long(&self) -> bool {
        self.deferred_long.load(Ordering::Relaxed) || self.reported_long.load(Ordering::Relaxed)
    }

    /// Records that the report of a long hold is due, but is deferred until the guard reaches its caller.
    pub(crate) fn defer_long(&self) {
        self.deferred_long.store(true, Ordering::Relaxed);
    }

    /// Marks the long hold as reported. Returns `false` if it was already marked, or if the hold has ended.
    pub(crate) fn report_long(&self) -> bool {
        self.phase.load(Ordering::Acquire) == OPEN && !self.reported_long.swap(true, Ordering::Relaxed)
    }

    /// Returns the data about this hold that a release in the background reports.
    pub(crate) fn release_context(&self) -> ReleaseContext {
        ReleaseContext { subject: self.subject.get().cloned() }
    }
}

/// The data that a release in the background reports. It is empty for a claim that no caller has held.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReleaseContext {
    subject: Option<Subject>,
}

impl ReleaseContext {
    pub(crate) fn template(&self) -> Option<&str> {
        self.subject.as_ref()?.template.as_deref()
    }

    /// Counts a release whose retries have ended without success.
    pub(crate) fn abandoned(&self) {
        if let Some(subject) = &self.subject {
            subject.meter.release_failed(ReleaseError::Abandoned);
        }
    }
}
