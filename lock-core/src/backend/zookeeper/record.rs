//! The data of a node, for people: the owner record, and when the claim was granted.

use std::time::Duration;

use crate::backend::Claim;
use crate::owner::{Owner, OwnerRecord};

/// Returns the data of the node of a claim that may have to wait.
pub(super) fn record(claim: &Claim) -> String {
    data(claim.owner, &claim.record, None)
}

/// Returns the data of a node: the owner record without the token, because every user may read it, and when it was `granted`.
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

/// Reads when a node was granted, by the wall clock of its holder, if it says so.
pub(super) fn read_granted(data: &[u8]) -> Option<Duration> {
    OwnerRecord::granted(std::str::from_utf8(data).ok()?)
}
