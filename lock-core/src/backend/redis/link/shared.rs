//! The state that all connections to one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::evictions::Evictions;
use crate::backend::redis::config::{Address, Config, FORM};
use crate::backend::remote::{Listeners, Tls};
use crate::error::LockError;

/// The state that all connections of a backend to one server share.
#[derive(Debug)]
pub(crate) struct Shared<R> {
    pub(crate) config: Config,
    tls: Option<Tls>,
    warned: AtomicBool,
    evictions: Evictions,
    listeners: Arc<Listeners>,
    pub(crate) role: R,
}

impl<R> Shared<R> {
    /// Creates the state, and reads the files that the configuration names.
    pub(crate) fn new(config: Config, role: R) -> Result<Self, LockError> {
        Ok(Self {
            tls: match &config.tls {
                Some(files) => Some(Tls::new(&FORM, files, config.address.hosts())?),
                None => None,
            },
            config,
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            listeners: Arc::default(),
            role,
        })
    }

    /// Returns this state with another role.
    pub(crate) fn with_role<S>(self, role: S) -> Shared<S> {
        let Self { config, tls, warned, evictions, listeners, role: _ } = self;
        Shared { config, tls, warned, evictions, listeners, role }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.config.address
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns `true` on the first call only, so that warnings about settings are logged once.
    pub(crate) fn warns(&self) -> bool {
        // Every runtime and every reconnect probes the server again.
        !self.warned.swap(true, Ordering::Relaxed)
    }

    /// Logs the number of keys that were evicted since the last report. `info` is an answer to `INFO`.
    pub(crate) fn report_evictions(&self, info: &str) {
        let keys = self.evictions.more(info);
        if keys > 0 {
            tracing::warn!(
                server = %self.address(), keys,
                "redis has evicted keys because it is short of memory, and locks may be among them; set \
                 maxmemory-policy to noeviction, or give the locks a server of their own"
            );
            self.listeners.keys_evicted(keys);
        }
    }

    pub(crate) fn shared_listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }

    /// Returns the listeners that receive the messages of the server.
    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// Creates the state for another server of the store, with the same listeners. Does not read the files again.
    pub(crate) fn sibling(&self, config: Config, role: R) -> Self {
        Self {
            config,
            tls: self.tls.clone(),
            // Each server has its own warnings, because the servers may be configured differently.
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            // The listeners are shared, because each Cluster node notifies the waiters for the keys in its slots.
            listeners: Arc::clone(&self.listeners),
            role,
        }
    }
}
