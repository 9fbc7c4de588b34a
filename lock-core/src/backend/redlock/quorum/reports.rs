//! Forwards those reports of the nodes that also apply to the quorum.

use std::sync::{Arc, Weak};

use crate::backend::{Listener, NodeAnswer};
use crate::owner::Owner;
use crate::sync::Mutex;

/// The listeners of a quorum. Each listener has a filter, which receives the reports of the nodes.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<Vec<Arc<OfNodes>>>);

impl Reports {
    /// Registers a listener, and returns the filter for the nodes. Removes listeners that no longer exist.
    pub(super) fn add(&self, listener: Weak<dyn Listener>) -> Weak<dyn Listener> {
        let mut all = self.0.lock();
        all.retain(|of| of.0.strong_count() > 0);
        let filter = Arc::new(OfNodes(listener));
        let weak = Arc::downgrade(&filter);
        all.push(filter);
        weak
    }
}

/// A filter between a node and a listener. It forwards the reports that are valid if one node sends them. It drops
/// grants, losses and wake-ups, because only a majority can decide these.
#[derive(Debug)]
struct OfNodes(Weak<dyn Listener>);

impl Listener for OfNodes {
    fn granted(&self, _owner: Owner, _waiters: usize) {}

    fn contended(&self, _key: &str) {}

    fn opened(&self, _key: &str) {}

    fn quarantined(&self, node: &str, stays_out: bool) {
        if let Some(listener) = self.0.upgrade() {
            listener.quarantined(node, stays_out);
        }
    }

    fn node_answered(&self, answer: &NodeAnswer<'_>) {
        if let Some(listener) = self.0.upgrade() {
            listener.node_answered(answer);
        }
    }

    fn dials(&self) {
        if let Some(listener) = self.0.upgrade() {
            listener.dials();
        }
    }

    fn reconnected(&self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::error::LossReason;
    use crate::owner::OwnerSource;

    /// Counts reports: a quarantine counts 10, an answer 100, a dial 1,000, and any other report 1.
    #[derive(Debug, Default)]
    struct Counter(AtomicU32);

    impl Counter {
        fn count(&self, by: u32) {
            self.0.fetch_add(by, Ordering::Relaxed);
        }
    }

    impl Listener for Counter {
        fn granted(&self, _owner: Owner, _waiters: usize) {
            self.count(1);
        }

        fn contended(&self, _key: &str) {
            self.count(1);
        }

        fn opened(&self, _key: &str) {
            self.count(1);
        }

        fn lost(&self, _owner: Owner, _reason: LossReason) {
            self.count(1);
        }

        fn quarantined(&self, _node: &str, _stays_out: bool) {
            self.count(10);
        }

        fn node_answered(&self, _answer: &NodeAnswer<'_>) {
            self.count(100);
        }

        fn dials(&self) {
            self.count(1_000);
        }

        fn reconnected(&self) {
            self.count(1);
        }
    }

    #[test]
    fn a_node_speaks_for_itself_alone() {
        let (reports, counter) = (Reports::default(), Arc::<Counter>::default());
        let weak: Weak<dyn Listener> = Arc::downgrade(&counter) as _;
        let node = reports.add(weak).upgrade().expect("the quorum keeps it");
        let owner = OwnerSource::new().expect("random bytes").mint();
        node.granted(owner, 1);
        node.contended("k");
        node.opened("k");
        node.lost(owner, LossReason::Forced);
        node.session_ended(&[owner]);
        node.reconnected();
        assert_eq!(counter.0.load(Ordering::Relaxed), 0, "a majority decides those");
        node.quarantined("a", true);
        node.node_answered(&NodeAnswer::new("a", std::time::Duration::ZERO));
        node.dials();
        assert_eq!(counter.0.load(Ordering::Relaxed), 1_110);
        drop(counter);
        reports.add(Arc::downgrade(&Arc::<Counter>::default()) as _);
        assert_eq!(reports.0.lock().len(), 1, "the one that is gone is forgotten");
    }
}
