//! Writes the events of the locks to the table.

use lock_core::LockEvent;
use lock_core::observe::LockEvents;

use crate::common::clock;
use crate::table::{Event, Table};

/// Writes every event to the table, until the manager has shut down.
pub(crate) async fn write(mut events: LockEvents, worker: String, table: Table) {
    while let Some(event) = events.next().await {
        let (name, token, detail) = describe(&event);
        let event =
            Event { happened: clock::now(), worker: worker.clone(), event: name.to_owned(), token, detail };
        // If the database fails for a moment, a line of the journal is lost. The locks are not affected.
        let _ = table.note(&event).await;
    }
}

/// Returns the name of an event, the token of the lock, and further details.
fn describe(event: &LockEvent) -> (&'static str, i64, String) {
    match event {
        LockEvent::Granted { waited, fencing_token, .. } => {
            ("granted", fencing_token.map_or(0, |token| token.get_i64()), format!("waited {waited:.1?}"))
        }
        LockEvent::Released { held, fencing_token, .. } => {
            ("released", fencing_token.map_or(0, |token| token.get_i64()), format!("held {held:.1?}"))
        }
        LockEvent::Lost { reason, held, fencing_token, .. } => {
            ("lost", fencing_token.map_or(0, |token| token.get_i64()), format!("{reason} after {held:.1?}"))
        }
        LockEvent::Refused { skipped: true, .. } => ("skipped", 0, String::new()),
        LockEvent::Refused { why, .. } => ("refused", 0, format!("{why:?}")),
        LockEvent::Endangered { left, .. } => ("endangered", 0, format!("{left:.1?} left")),
        LockEvent::HeldLong { held, .. } => ("held long", 0, format!("{held:.1?}")),
        LockEvent::StoreFailed { error, .. } => ("store failed", 0, error.clone()),
        LockEvent::ReleaseFailed { .. } => ("release failed", 0, String::new()),
        LockEvent::Missed(count) => ("missed", 0, count.to_string()),
        other => ("other", 0, format!("{other:?}")),
    }
}
