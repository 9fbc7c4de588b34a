//! Keeps the listeners that receive the reports of a store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::backend::Listener;
use crate::sync::{Mutex, MutexGuard};

/// The listeners of one store, each with its process, shared by all connections.
///
/// The *process* is the random part that the owner tokens of one manager share. Messages are addressed to a process.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// This is a `std` mutex. It is never locked across an await or during a report.
    registered: Mutex<Vec<(u128, Weak<dyn Listener>)>>,
    /// A number that grows with every change. A connection uses the number to detect whether its subscriptions cover
    /// all listeners.
    version: AtomicU64,
}

impl Listeners {
    /// Registers a listener, and removes the listeners that no longer exist.
    pub(crate) fn add(&self, process: u128, listener: Weak<dyn Listener>) {
        let mut registered = self.registered();
        registered.retain(|(_, listener)| listener.strong_count() > 0);
        registered.push((process, listener));
        // The version changes under the mutex. So a connection that reads first the version and then the processes
        // covers at least the listeners of that version.
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn of_process(&self, process: u128) -> Vec<Arc<dyn Listener>> {
        self.matching(|of| of == process)
    }

    fn matching(&self, wanted: impl Fn(u128) -> bool) -> Vec<Arc<dyn Listener>> {
        // The listeners are collected first, so that no listener is called under the mutex.
        let registered = self.registered();
        registered
            .iter()
            .filter(|(of, _)| wanted(*of))
            .filter_map(|(_, listener)| listener.upgrade())
            .collect()
    }

    fn registered(&self) -> MutexGuard<'_, Vec<(u128, Weak<dyn Listener>)>> {
        self.registered.lock()
    }
}

#[cfg(any(feature = "postgres", feature = "redis"))]
impl Listeners {
    /// Returns a number that grows when the existing subscriptions no longer suffice.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the processes of all listeners, each once and in order.
    pub(crate) fn processes(&self) -> Vec<u128> {
        let mut processes: Vec<u128> = self.registered().iter().map(|(process, _)| *process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }
}

#[cfg(any(feature = "etcd", feature = "postgres", feature = "redis"))]
impl Listeners {
    pub(crate) fn living(&self) -> Vec<Arc<dyn Listener>> {
        self.matching(|_| true)
    }

    /// Reports to all listeners that a server is about to be dialled.
    pub(crate) fn dials(&self) {
        self.living().iter().for_each(|listener| listener.dials());
    }

    /// Reports to all listeners that messages may have been lost.
    pub(crate) fn reconnected(&self) {
        self.living().iter().for_each(|listener| listener.reconnected());
    }

    /// Reports to all listeners that a server has answered.
    pub(crate) fn node_answered(&self, answer: &crate::backend::NodeAnswer<'_>) {
        self.living().iter().for_each(|listener| listener.node_answered(answer));
    }
}

#[cfg(feature = "redis")]
impl Listeners {
    /// Reports to all listeners that the server evicted this many keys.
    pub(crate) fn keys_evicted(&self, keys: u64) {
        self.living().iter().for_each(|listener| listener.keys_evicted(keys));
    }

    /// Reports that the server ended a subscription. Every connection then subscribes again before it relies on a
    /// subscription.
    pub(crate) fn unsubscribed(&self) {
        // The version changes before the waiters are woken. When they send their next request, their connection must
        // already detect that its subscriptions no longer suffice.
        self.version.fetch_add(1, Ordering::Release);
        self.reconnected();
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::*;
    use crate::owner::Owner;

    /// A listener that counts the reports of a new connection.
    #[derive(Debug, Default)]
    struct Counter(AtomicU64);

    impl Listener for Counter {
        fn granted(&self, _owner: Owner, _waiters: usize) {}
        fn contended(&self, _key: &str) {}
        fn opened(&self, _key: &str) {}
        fn reconnected(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn reports_reach_the_listeners_that_live() {
        let (listeners, one, two) =
            (Listeners::default(), Arc::<Counter>::default(), Arc::<Counter>::default());
        let weak = |counter: &Arc<Counter>| -> Weak<dyn Listener> { Arc::downgrade(counter) as _ };
        for (process, counter) in [(7, &one), (3, &two), (7, &two)] {
            listeners.add(process, weak(counter));
        }
        assert_eq!((listeners.processes(), listeners.version()), (vec![3, 7], 3));
        assert_eq!([7, 3, 9].map(|process| listeners.of_process(process).len()), [2, 1, 0]);
        drop(one);
        listeners.unsubscribed();
        assert_eq!((two.0.load(Ordering::Relaxed), listeners.version()), (2, 4), "it is registered twice");
        listeners.add(1, weak(&two));
        assert_eq!(listeners.registered().len(), 3, "the one that is gone is forgotten");
    }
}
