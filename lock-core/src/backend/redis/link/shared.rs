//! What all connections to one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::evictions::Evictions;
use crate::backend::redis::config::{Address, Config, FORM};
use crate::backend::remote::{Listeners, Tls};
use crate::error::LockError;

/// What all connections of one backend share.
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
    /// Reads the files that the configuration names.
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

    /// The same in another role.
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

    /// Whether its settings have not been complained of yet.
    pub(crate) fn warns(&self) -> bool {
        !self.warned.swap(true, Ordering::Relaxed)
    }

    /// Reports keys that were evicted since the last report. `info` is an answer to `INFO`.
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

    /// Who is told what the server tells by itself.
    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// The same for another server of the store: it has the same listeners, and no file is read again.
    pub(crate) fn sibling(&self, config: Config, role: R) -> Self {
        Self {
            config,
            tls: self.tls.clone(),
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            listeners: Arc::clone(&self.listeners),
            role,
        }
    }
}
