//! Stores the owners whose grants the store has reported as lost.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LossReason;
use crate::owner::Owner;
use crate::sync::Mutex;

/// The owners whose grants the store has recently reported as lost.
///
/// The report may arrive while a grant has no lease that could be notified, because the grant is still in an answer of
/// the store or in a hand-off. So code that creates a lease for a grant checks this list before and after the creation.
#[derive(Debug, Default)]
pub(crate) struct LostOwners {
    /// Whether there are any reports. Every grant reads this flag, because it is cheaper than the list.
    any: AtomicBool,
    /// The reports in order of arrival.
    last: Mutex<VecDeque<(Owner, LossReason)>>,
}

impl LostOwners {
    /// The number of owners that are stored. This number exceeds the number of grants that can be without a lease at
    /// the same time.
    const KEPT: usize = 1_024;

    /// Records a report.
    pub(crate) fn note(&self, owners: &[Owner], reason: LossReason) {
        self.last.with(|last| {
            last.extend(owners.iter().map(|owner| (*owner, reason)));
            // The last report is always stored completely, because any of its grants may have no lease at the moment.
            last.drain(..last.len().saturating_sub(Self::KEPT.max(owners.len())));
        });
        // The flag is set before the report searches for leases. Code that creates a lease first adds the lease to the
        // schedule, and then reads the flag. So either the report finds the lease, or that code finds the report.
        self.any.store(true, Ordering::SeqCst);
    }

    /// Returns the last reason why the grant of `owner` was recently lost, if it was.
    pub(crate) fn reason(&self, owner: Owner) -> Option<LossReason> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        let last = self.last.lock();
        last.iter().rev().find(|(lost, _)| *lost == owner).map(|(_, reason)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    #[test]
    fn the_last_reports_are_remembered_and_one_is_kept_whole() {
        let source = OwnerSource::new().expect("random bytes");
        let lost = LostOwners::default();
        let first = source.mint();
        assert_eq!(lost.reason(first), None);
        lost.note(&[first], LossReason::Forced);
        lost.note(&[first], LossReason::Taken);
        assert_eq!(lost.reason(first), Some(LossReason::Taken));
        let many: Vec<Owner> = (0..2 * LostOwners::KEPT).map(|_| source.mint()).collect();
        lost.note(&many, LossReason::SessionEnded);
        assert!(many.iter().all(|owner| lost.reason(*owner) == Some(LossReason::SessionEnded)));
        assert_eq!(lost.reason(first), None, "forgotten by now");
        lost.note(&[first], LossReason::Forced);
        assert_eq!(lost.last.lock().len(), LostOwners::KEPT);
    }
}
