//! Writes and reads the data of a node, which is for people: the owner record, and the time of the grant.

use std::time::Duration;

use crate::backend::Claim;
use crate::owner::OwnerRecord;

/// Returns the data of the node of a claim that may have to wait.
pub(super) fn record(claim: &Claim) -> String {
    data(&claim.record, None)
}

/// Returns the data of a node: the owner record, and the time at which the node was `granted`, if that is given. The
/// data does not contain the token, because every user may read it.
pub(super) fn data(record: &OwnerRecord, granted: Option<Duration>) -> String {
    let mut value = record.to_record();
    if let Some(granted) = granted {
        OwnerRecord::add_granted(&mut value, granted);
    }
    value
}

pub(super) fn read_record(data: &[u8]) -> Option<OwnerRecord> {
    OwnerRecord::from_record(std::str::from_utf8(data).ok()?)
}

/// Returns when a node was granted, by the wall clock of its holder; `None` if the data does not contain this time.
pub(super) fn read_granted(data: &[u8]) -> Option<Duration> {
    OwnerRecord::granted(std::str::from_utf8(data).ok()?)
}
