//! What all connections to one server share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::cluster::Router;
use super::config::{Address, Config, FORM};
use super::evictions::Evictions;
use super::sentinel::Place;
use super::voter::Voter;
use crate::backend::remote::{Listeners, Tls};
use crate::error::LockError;

/// What all connections of one backend share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: Config,
    tls: Option<Tls>,
    warned: AtomicBool,
    pub(super) evictions: Evictions,
    listeners: Arc<Listeners>,
    /// What makes it a voter of a quorum.
    pub(super) voter: Option<Arc<Voter>>,
    /// Whether it is a node of a Cluster.
    pub(super) on_cluster: bool,
    /// Who knows the others there.
    pub(super) peers: Weak<Router>,
}

impl Shared {
    /// Reads the files that the configuration names.
    pub(super) fn new(config: Config) -> Result<Self, LockError> {
        Ok(Self {
            tls: match &config.tls {
                Some(files) => Some(Tls::new(&FORM, files, config.address.hosts())?),
                None => None,
            },
            config,
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            listeners: Arc::default(),
            voter: None,
            on_cluster: false,
            peers: Weak::new(),
        })
    }

    /// Makes it a voter of a quorum.
    pub(super) fn voting(self, voter: Arc<Voter>) -> Self {
        Self { voter: Some(voter), ..self }
    }

    /// Makes it one of a Cluster, whose nodes are found by `peers`.
    pub(super) fn on_cluster(self, peers: Weak<Router>) -> Self {
        Self { on_cluster: true, peers, ..self }
    }

    /// The node of the Cluster at a place. All of them have the same listeners, and read no file again.
    pub(super) fn node(&self, place: Place) -> Self {
        Self {
            config: self.config.of_node(place),
            tls: self.tls.clone(),
            warned: AtomicBool::new(false),
            evictions: Evictions::default(),
            listeners: Arc::clone(&self.listeners),
            voter: None,
            on_cluster: self.on_cluster,
            peers: self.peers.clone(),
        }
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
