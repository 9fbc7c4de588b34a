//! Writes and reads the data of a node, which is for people: the owner record, and the time of the grant.

use std::time::Duration;

use crate::backend::Claim;
use crate::owner::{Owner, OwnerRecord};

/// Returns the data of the node of a claim that may have to wait.
pub(super) fn record(claim: &Claim) -> String {
    data(claim.owner, &claim.record, None)
}

/// Returns the data of a node: the owner record, and the time at which the node was `granted`, if that is given. The
/// data does not contain the token, because every user may read it.
pub(super) fn data(owner: Owner, record: &OwnerRecord, granted: Option<Duration>) -> String {
    let mut value = record.to_value(&owner.token());
    if let Some(granted) = granted {
        OwnerRecord::add_granted(&mut value, granted);
    }
    value.get(Owner::TOKEN_LEN + 1..).unwrap_or_default().to_owned()
}

pub(super) fn read_record(data: &[u8]) -> Option<OwnerRecord> {
    let text = std::str::from_utf8(data).ok()?;
    OwnerRecord::from_value(&format!("{:0width$} {text}", 0, width = Owner::TOKEN_LEN))
}

/// Returns when a node was granted, by the wall clock of its holder; `None` if the data does not contain this time.
pub(super) fn read_granted(data: &[u8]) -> Option<Duration> {
    OwnerRecord::granted(std::str::from_utf8(data).ok()?)
}
