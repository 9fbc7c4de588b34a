//! What all connections to one server share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::config::{Address, Config, FORM};
use super::evictions::Evictions;
use super::primary::Primary;
use super::role::Role;
use super::sentinel::Place;
use crate::backend::remote::{Listeners, Tls};
use crate::error::LockError;

/// What all connections of one backend share.
#[derive(Debug)]
pub(crate) struct Shared<R: Role> {
    pub(super) config: Config,
    tls: Option<Tls>,
    warned: AtomicBool,
    pub(super) evictions: Evictions,
    listeners: Arc<Listeners>,
    pub(crate) role: R,
}

impl<R: Role> Shared<R> {
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
    pub(super) fn with_role<S: Role>(self, role: S) -> Shared<S> {
        let Self { config, tls, warned, evictions, listeners, role: _ } = self;
        Shared { config, tls, warned, evictions, listeners, role }
    }

    pub(super) fn address(&self) -> &Address {
        &self.config.address
    }

    pub(super) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Whether its settings have not been complained of yet.
    pub(super) fn warns(&self) -> bool {
        !self.warned.swap(true, Ordering::Relaxed)
    }

    pub(super) fn shared_listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }

    /// Who is told what the server tells by itself.
    pub(super) fn listeners(&self) -> &Listeners {
        &self.listeners
    }
}

impl Shared<Primary> {
    /// The node of the Cluster at a place. All of them have the same listeners, and read no file again.
    pub(super) fn node(&self, place: Place) -> Self {
        Self {
            config: self.config.of_node(place),
            tls: self.tls.clone(),
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            listeners: Arc::clone(&self.listeners),
            role: self.role.sibling(),
        }
    }
}
