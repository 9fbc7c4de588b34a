//! Stores the owners whose grants the store has reported as lost.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LossReason;
use crate::owner::Owner;
use crate::sync::{Mutex, MutexGuard};

/// The owners whose grants the store has recently reported as lost.
///
/// The report may arrive while a grant has no lease that could be notified, because the grant is still in an answer of
/// the store or in a hand-off. So code that creates a lease for a grant checks this list before and after the creation.
#[derive(Debug, Default)]
pub(crate) struct LostOwners {
    /// Whether there are any reports. Every grant reads this flag, because it is cheaper than the list.
    any: AtomicBool,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    in_order: VecDeque<Owner>,
    reasons: HashMap<Owner, LossReason>,
}

impl LostOwners {
    /// The number of owners that are stored. This number exceeds the number of grants that can be without a lease at
    /// the same time.
    const KEPT: usize = 1_024;

    /// Records a report. A later reason for the same owner replaces an earlier reason.
    pub(crate) fn note(&self, owners: &[Owner], reason: LossReason) {
        let mut last = self.last();
        for owner in owners {
            if last.reasons.insert(*owner, reason).is_none() {
                last.in_order.push_back(*owner);
            }
        }
        // The last report is always stored completely, because any of its grants may have no lease at the moment.
        while last.in_order.len() > Self::KEPT.max(owners.len()) {
            let oldest = last.in_order.pop_front();
            oldest.and_then(|oldest| last.reasons.remove(&oldest));
        }
        // The flag is set before the report searches for leases. Code that creates a lease first adds the lease to the
        // schedule, and then reads the flag. So either the report finds the lease, or that code finds the report.
        self.any.store(true, Ordering::SeqCst);
    }

    /// Returns the reason why the grant of `owner` was recently lost, if it was.
    pub(crate) fn reason(&self, owner: Owner) -> Option<LossReason> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        self.last().reasons.get(&owner).copied()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock()
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
        assert_eq!(lost.last().in_order.len(), LostOwners::KEPT);
        assert_eq!(lost.last().reasons.len(), LostOwners::KEPT);
    }
}
