//! Defines [`Hub`], the internal state of one manager: the engine, and the renewers of its leases.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Weak};

use crate::backend::{DynBackend, Listener, NodeAnswer};
use crate::background::Background;
use crate::engine::Engine;
use crate::error::{LossReason, Result};
use crate::key::Key;
use crate::lease::{Lease, Renewers};
use crate::observe::{self, Observer, Settings};
use crate::options::Profiles;
use crate::owner::{Identity, Owner};
use crate::pending::Certainty;
use crate::store::Store;
use crate::sync::survives;

/// The internal state of one manager. Managers, requests, guards and handles own references to the hub. Leases and
/// pending claims refer only to its parts.
pub(crate) struct Hub {
    pub(crate) engine: Arc<Engine>,
    pub(crate) renewers: Renewers,
    background: Arc<Background>,
}

/// The output is short, because the `Debug` output of every guard and request contains it.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.fmt(f)
    }
}

impl Hub {
    pub(crate) fn new(
        backend: Arc<dyn DynBackend>,
        namespace: String,
        identity: Identity,
        profiles: Profiles,
        settings: Settings,
    ) -> Result<Arc<Self>> {
        let capability = backend.capability_dyn();
        let clock = capability.placement.clock();
        let observer = Arc::new(Observer::new(settings, capability.store, clock));
        let store = Store::new(backend, Arc::clone(&observer));
        let background = Arc::new(Background::new(capability.placement)?);
        let engine = Engine::new(
            store.clone(),
            observer,
            Arc::new(identity),
            namespace,
            profiles,
            Arc::clone(&background),
        )?;
        let renewers = Renewers::new(store, Arc::clone(&engine.local_queue), Arc::clone(&background));
        let hub = Arc::new(Self { engine, renewers, background });
        // The reference is weak, because the hub owns the store. With a reference cycle, the hub would never be
        // dropped.
        let listener: Weak<Self> = Arc::downgrade(&hub);
        let process = hub.engine.owners.process();
        // The listener is attached before the manager is returned, because a store that notifies needs a listener
        // before the first request.
        hub.engine.store.backend.attach_dyn(process, listener, hub.background.of_session().as_ref());
        Ok(hub)
    }

    /// Returns every live lease.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        self.renewers.leases()
    }

    /// Ends the leases of `owners`, whose grants no longer exist in the store.
    fn all_lost(&self, owners: &[Owner], reason: LossReason) {
        // The owners are recorded first, because a grant that is being handed off has no lease yet.
        self.engine.lost.note(owners, reason);
        let owners: HashSet<&Owner> = owners.iter().collect();
        survives(|| self.engine.local_queue.lose_all_lingering(&owners));
        for lease in self.leases().into_iter().filter(|lease| owners.contains(&lease.claim().owner)) {
            // If one key of a multi-key lock is lost, the other keys must be released. When a session ends, the store
            // has already freed all of them. If the log panics for one lease, the other leases must still end.
            let is_news = survives(|| lease.lose(reason)).unwrap_or(true);
            if is_news && reason != LossReason::SessionEnded {
                let cleanup = &self.engine.cleanup;
                cleanup.release(lease.claim(), Certainty::Granted, lease.store_until(), None);
            }
        }
    }
}

/// Handles the reports of the store. The reports come from tasks that supervise a connection or a session. These tasks
/// must continue even if the log, the metrics or a waker of the application panics.
impl Listener for Hub {
    fn granted(&self, owner: Owner, waiters: usize) {
        // If the owner no longer waits, this does nothing. Such an owner already holds the lock, or its release is
        // pending.
        survives(|| self.engine.notifications.granted(owner, waiters));
    }

    fn contended(&self, key: &str) {
        // `key` is the text of a valid key, and makes the same key again.
        if let Ok(key) = Key::new(key) {
            survives(|| self.engine.local_queue.contended(&key));
        }
    }

    fn opened(&self, key: &str) {
        if let Ok(key) = Key::new(key) {
            survives(|| self.engine.latches.opened(&key));
        }
    }

    fn lost(&self, owner: Owner, reason: LossReason) {
        self.all_lost(&[owner], reason);
    }

    fn session_ended(&self, owners: &[Owner]) {
        self.all_lost(owners, LossReason::SessionEnded);
    }

    fn keys_evicted(&self, count: u64) {
        survives(|| self.engine.observer.record_evicted(count));
    }

    fn quarantined(&self, node: &str, stays_out: bool) {
        survives(|| observe::quarantined(node, stays_out));
    }

    fn node_answered(&self, answer: &NodeAnswer<'_>) {
        survives(|| self.engine.observer.meters.node_answered(answer));
    }

    fn dials(&self) {
        self.engine.owners.leap();
    }

    fn reconnected(&self) {
        // A lost notification may have reported that another process waits for a key whose grant lingers here (stays
        // after its release), or will linger soon.
        survives(|| self.engine.local_queue.missed());
        survives(|| self.engine.reconnected());
    }
}

/// After the hub is dropped, this manager can neither acquire nor hold a lock. The background ends when the last
/// releases are answered.
impl Drop for Hub {
    fn drop(&mut self) {
        let cleanup = Arc::clone(&self.engine.cleanup);
        // Some releases are repeated only as a precaution. They must not keep the thread alive, so their next attempt
        // is the last.
        cleanup.hurry();
        self.engine.local_queue.end_all_lingering();
        self.background.stop(async move { cleanup.settled().await });
    }
}
