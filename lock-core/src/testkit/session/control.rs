//! Controls the sessions of a store.

use std::sync::Arc;

use super::sessions::Sessions;

/// The handle that ends the sessions of a [`SessionStore`](super::SessionStore). Clones control the same store.
#[derive(Clone, Debug)]
pub struct SessionControl(pub(super) Arc<Sessions>);

impl SessionControl {
    /// Ends the session of `process`, as if the session had expired. The grants and the queue entries of the session
    /// are removed, the waiters for its keys are notified, and the [`Listener`](crate::backend::Listener) of the
    /// process is notified. The process begins another session with its next claim. If the process is not attached, the
    /// call has no effect.
    pub fn end(&self, process: u128) {
        self.0.end(process);
    }

    /// Ends every session.
    pub fn end_all(&self) {
        self.processes().into_iter().for_each(|process| self.end(process));
    }

    /// Returns the attached processes in the order in which they were attached. Each manager is one process: see
    /// [`Owner::process`](crate::owner::Owner::process).
    #[must_use]
    pub fn processes(&self) -> Vec<u128> {
        self.0.processes()
    }

    /// Sets whether every notification is lost. While notifications are lost, no
    /// [`changed`](crate::backend::Backend::changed) completes, and the end of a session is not reported.
    pub fn lose_notifications(&self, lose: bool) {
        self.0.lose_notifications(lose);
    }

    /// Notifies every process that its connection is new, as a store does after an outage.
    pub fn reconnect(&self) {
        self.0.listeners().iter().for_each(|listener| listener.reconnected());
    }

    /// Returns the number of grants that live in any session.
    #[must_use]
    pub fn grants(&self) -> usize {
        self.0.grants()
    }

    /// Returns the number of sessions that have ended so far.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.0.ended()
    }
}
