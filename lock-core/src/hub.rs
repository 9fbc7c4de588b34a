//! The inside of one manager: the engine, and the renewers of its leases.

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

/// The inside of one manager. Managers, requests, guards and handles keep it alive; leases and pending claims only know
/// the parts below it.
pub(crate) struct Hub {
    pub(crate) engine: Arc<Engine>,
    pub(crate) renewers: Renewers,
    background: Arc<Background>,
}

/// Short, because the `Debug` of every guard and request contains it.
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
            identity.kept(),
            namespace,
            profiles,
            Arc::clone(&background),
        )?;
        let renewers = Renewers::new(store, Arc::clone(&engine.local_queue), Arc::clone(&background));
        let hub = Arc::new(Self { engine, renewers, background });
        // Weak, because the engine has the store: a store that kept the hub alive would never let the manager end.
        let listener: Weak<Self> = Arc::downgrade(&hub);
        let process = hub.engine.owners.process();
        // This comes before the manager is returned: a store that notifies must have a listener when the first request
        // is sent.
        hub.engine.store.attach(process, listener, hub.background.of_session().as_ref());
        Ok(hub)
    }

    /// Returns every live lease.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        self.renewers.leases()
    }

    /// Ends the leases of `owners`, whose grants the store says are gone.
    fn all_lost(&self, owners: &[Owner], reason: LossReason) {
        // This comes first: a grant that is being handed off has no lease yet.
        self.engine.note_lost(owners, reason);
        let owners: HashSet<&Owner> = owners.iter().collect();
        survives(|| self.engine.local_queue.lose_all_lingering(&owners));
        for lease in self.leases().into_iter().filter(|lease| owners.contains(&lease.claim().owner)) {
            // If one key of a multi-key lock is lost, the others must be released. When a session ends, the store has
            // freed them all. A log that panics at one of them must not keep the others from being notified.
            let is_news = survives(|| lease.lose(reason)).unwrap_or(true);
            if is_news && reason != LossReason::SessionEnded {
                let cleanup = &self.engine.cleanup;
                cleanup.release(lease.claim(), Certainty::Granted, lease.store_until(), None);
            }
        }
    }
}

/// Passes the reports of the store on. They come from tasks that watch a connection or a session: if the log, the
/// metrics or a waker of the application panics, these tasks must continue.
impl Listener for Hub {
    fn granted(&self, owner: Owner, waiters: usize) {
        // An owner that no longer waits has no mailbox: it holds the lock already, or its release is under way.
        survives(|| self.engine.notifications.granted(owner, waiters));
    }

    fn contended(&self, key: &str) {
        // The text of a key makes the same key again.
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
        // A waiter elsewhere may wait for a grant that lingers here, or that will.
        survives(|| self.engine.local_queue.missed());
        survives(|| self.engine.reconnected());
    }
}

/// No lock can be acquired or held with this manager any more. The background ends once the last releases are answered.
impl Drop for Hub {
    fn drop(&mut self) {
        let cleanup = Arc::clone(&self.engine.cleanup);
        // The thread must not stay for releases that are only repeated to be safe: their next try is the last.
        cleanup.hurry();
        self.engine.local_queue.end_all_lingering();
        self.background.stop(async move { cleanup.settled().await });
    }
}
