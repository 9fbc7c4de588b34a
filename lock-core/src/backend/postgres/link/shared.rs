//! The state that all connections of one store share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::abandoned::Abandoned;
use crate::backend::postgres::config::{Address, Config, FORM};
use crate::backend::postgres::sql::Statements;
use crate::backend::remote::{Listeners, Tls};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) statements: Statements,
    tls: Option<Tls>,
    /// Whether the last dial reached a pooler that shares its connections. If so, the store must not set anything for a
    /// session.
    pooled: AtomicBool,
    /// Whether each session belongs only to the store, as far as is known. A pooler may share sessions without notice.
    own: Arc<AtomicBool>,
    listeners: Arc<Listeners>,
    pub(super) abandoned: Abandoned,
}

impl Shared {
    /// Creates the state, and reads the TLS files that the configuration names.
    pub(crate) fn new(config: Config, listeners: Arc<Listeners>) -> Result<Self> {
        Ok(Self {
            tls: match &config.tls {
                Some(files) => Some(Tls::new(&FORM, files, config.address.hosts())?),
                None => None,
            },
            statements: Statements::new(&config),
            config,
            pooled: AtomicBool::new(false),
            own: Arc::new(AtomicBool::new(true)),
            listeners,
            abandoned: Abandoned::default(),
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.config.address
    }

    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled.load(Ordering::Acquire)
    }

    pub(super) fn set_pooled(&self, pooled: bool) {
        self.pooled.store(pooled, Ordering::Release);
    }

    pub(super) fn own_sessions(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.own)
    }

    pub(crate) fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }
}
