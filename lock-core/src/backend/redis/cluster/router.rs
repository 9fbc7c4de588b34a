//! Which node has a slot, found out when it is not known or not true any more.
//!
//! There is no task that watches the Cluster: whoever finds a node gone, or is sent to another one, learns where the slot
//! is now, and one at a time asks for everybody.

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use ::redis::{Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::super::client::Redis;
use super::super::config::{Address, Config};
use super::super::connection::Server;
use super::super::dial;
use super::super::ears::Ears;
use super::super::error::{Failure, Reaction};
use super::super::links::Links;
use super::super::sentinel::Place;
use super::map::View;
use super::slot::SLOTS;
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;

/// How long one node may take to say what it knows.
const PATIENCE: Duration = Duration::from_millis(300);
/// How much longer the others may take once half of them have: one that hangs must not slow down every look.
const GRACE: Duration = Duration::from_millis(50);
/// How many nodes are asked at once.
const ASKED: usize = 5;
/// Between two looks while a node is missed; a failover takes a second or more.
const PAUSE: Duration = Duration::from_millis(100);

/// The nodes of a Cluster.
pub(in crate::backend::redis) struct Router {
    /// For the nodes, which ask about each other.
    me: Weak<Self>,
    config: Config,
    ears: Arc<Ears>,
    /// A `std` lock: it is never held across an await.
    state: RwLock<State>,
    /// When the last look began.
    looking: tokio::sync::Mutex<Option<Moment>>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What is known of the Cluster.
struct State {
    view: View,
    /// The node of each slot.
    slots: Vec<Option<Arc<Redis>>>,
    nodes: HashMap<Place, Arc<Redis>>,
    /// Grows when a slot gets another node.
    version: u64,
    closed: bool,
}

impl Router {
    /// Knows nothing but where to begin.
    pub(super) fn new(config: Config) -> Arc<Self> {
        let state = State {
            view: View::default(),
            slots: vec![None; usize::from(SLOTS)],
            nodes: HashMap::new(),
            version: 0,
            closed: false,
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            config,
            ears: Arc::default(),
            state: RwLock::new(state),
            looking: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn ears(&self) -> &Ears {
        &self.ears
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        write(&mut self.state.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The node that is taken for that of the slot.
    pub(super) fn node(&self, slot: u16) -> Option<Arc<Redis>> {
        self.read(|state| state.slots[usize::from(slot)].clone())
    }

    /// Every node that has slots.
    pub(super) fn primaries(&self) -> Vec<Arc<Redis>> {
        self.read(|state| state.nodes.values().cloned().collect())
    }

    /// The node of the slot, connected to; without a deadline of its own.
    pub(super) async fn ready(&self, slot: u16) -> Result<Arc<Redis>, Failure> {
        loop {
            let (version, closed) = self.read(|state| (state.version, state.closed));
            if closed {
                return Err(Failure::new(LockErrorKind::ShuttingDown, "the connections were closed"));
            }
            let node = self.node(slot);
            if let Some(node) = node.as_ref().filter(|node| node.links.now().is_some()) {
                return Ok(Arc::clone(node));
            }
            tokio::select! {
                connected = connected(node.as_deref()) => {
                    connected?;
                    return node.ok_or_else(|| Failure::new(LockErrorKind::Unavailable, "no node"));
                }
                () = self.learn(version) => {}
            }
        }
    }

    /// Returns when something about the slots is known that was not at `version`.
    async fn learn(&self, version: u64) {
        loop {
            if let Err(failure) = self.look().await {
                tracing::debug!(cluster = %self.config.address, ?failure, "no node says who has which slot");
            }
            if self.read(|state| state.version) != version {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether a node that was just connected to has slots, as the others say: one that was stopped for a while takes
    /// itself for the primary when it goes on, until it hears of the others.
    pub(in crate::backend::redis) async fn prove(&self, place: &Place) -> Result<(), Failure> {
        self.look().await?;
        if self.read(|state| state.view.names(place)) {
            return Ok(());
        }
        Err(Failure::new(LockErrorKind::Unavailable, "the other nodes name another one for its slots"))
    }

    /// Asks until somebody answers, for as long as one dial may take.
    pub(super) async fn find(&self) -> Result<(), Failure> {
        let give_up = Clock::Suspend.now().plus(self.config.connect_timeout);
        loop {
            match self.look().await {
                Err(failure) if !failure.is_permanent() && !give_up.is_past(Clock::Suspend.now()) => {
                    sleep(PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    /// Asks some of the nodes who has which slot, unless somebody has begun to do so since this call.
    pub(super) async fn look(&self) -> Result<(), Failure> {
        let called = Clock::Suspend.now();
        let mut last = self.looking.lock().await;
        let now = Clock::Suspend.now();
        if last.is_some_and(|last| last.since(called) > Duration::ZERO) {
            return Ok(());
        }
        self.ask_around().await?;
        *last = Some(now);
        Ok(())
    }

    async fn ask_around(&self) -> Result<(), Failure> {
        let mut asked = JoinSet::new();
        for place in self.some() {
            let config = self.config.of_node(place);
            asked.spawn(async move {
                let elapsed =
                    || Failure::new(LockErrorKind::Unavailable, format!("no answer within {PATIENCE:?}"));
                timeout(PATIENCE, ask(config)).await.unwrap_or_else(|_| Err(elapsed()))
            });
        }
        let (count, mut views, mut failed) = (asked.len(), Vec::new(), None);
        loop {
            let patience = if views.len() * 2 > count { GRACE } else { PATIENCE + GRACE };
            match timeout(patience, asked.join_next()).await {
                Ok(Some(Ok(Ok(view)))) => views.push(view),
                // What stays wrong says more than what may pass.
                Ok(Some(Ok(Err(failure)))) => match &failed {
                    Some(known) if Failure::is_permanent(known) => {}
                    _ => failed = Some(failure),
                },
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let newest =
            views.into_iter().reduce(|one, other| if other.is_newer_than(&one) { other } else { one });
        match newest {
            Some(view) => self.adopt(view),
            None => {
                Err(failed.unwrap_or_else(|| Failure::new(LockErrorKind::Unavailable, "no node was asked")))
            }
        }
    }

    /// Where to ask: nodes that are known, and those of the URL, which may be all that is left.
    fn some(&self) -> Vec<Place> {
        let mut places = self.read(|state| state.view.nodes());
        fastrand::shuffle(&mut places);
        if let Address::Cluster(seeds) = &self.config.address {
            let mut seeds: Vec<_> = seeds.iter().filter(|seed| !places.contains(seed)).cloned().collect();
            fastrand::shuffle(&mut seeds);
            places.truncate(ASKED);
            places.extend(seeds.into_iter().take(ASKED));
        }
        places
    }

    /// Takes a view for true, unless it is older than the last one.
    fn adopt(&self, view: View) -> Result<(), Failure> {
        let changed = self.write(|state| {
            if state.view == view || state.view.is_newer_than(&view) {
                return Ok(false);
            }
            let (mut nodes, mut slots) = (HashMap::new(), Vec::with_capacity(usize::from(SLOTS)));
            for place in view.primaries() {
                slots.push(match place {
                    Some(place) => Some(self.known(state, &mut nodes, place)?),
                    None => None,
                });
            }
            let same = |(old, new): (&Option<Arc<Redis>>, &Option<Arc<Redis>>)| match (old, new) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (old, new) => old.is_none() && new.is_none(),
            };
            let changed = !state.slots.iter().zip(&slots).all(same);
            (state.nodes, state.slots, state.view) = (nodes, slots, view);
            state.version += u64::from(changed);
            Ok(changed)
        })?;
        if changed {
            // Whoever waits at a node that has lost the slot is not told there any more.
            self.ears.reconnected();
        }
        Ok(())
    }

    fn known(
        &self,
        state: &State,
        nodes: &mut HashMap<Place, Arc<Redis>>,
        place: Place,
    ) -> Result<Arc<Redis>, Failure> {
        if let Some(node) = nodes.get(&place) {
            return Ok(Arc::clone(node));
        }
        let node = match state.nodes.get(&place) {
            Some(node) => Arc::clone(node),
            None => self.make(place.clone())?,
        };
        nodes.insert(place, Arc::clone(&node));
        Ok(node)
    }

    fn make(&self, place: Place) -> Result<Arc<Redis>, Failure> {
        let server = server(self.config.of_node(place))?;
        let server = server.on_cluster(Arc::clone(&self.ears), self.me.clone());
        Ok(Arc::new(Redis { links: Links::idle(Arc::new(server)) }))
    }

    /// The node at a place that another node has named.
    pub(super) fn at(&self, by: &Redis, (host, port): &Place) -> Result<Arc<Redis>, Failure> {
        let host = match by.links.server().address() {
            Address::Tcp { host: own, .. } if host.is_empty() => own.clone(),
            _ => host.clone(),
        };
        let place = (host, *port);
        if let Some(node) = self.read(|state| state.nodes.get(&place).cloned()) {
            return Ok(node);
        }
        let node = self.make(place.clone())?;
        Ok(self.write(|state| Arc::clone(state.nodes.entry(place).or_insert(node))))
    }

    /// Takes note that a node has named another one for a slot.
    pub(super) fn moved(&self, slot: u16, by: &Redis, place: &Place) -> Result<(), Failure> {
        let node = self.at(by, place)?;
        self.write(|state| {
            if let Some(of) = state.slots.get_mut(usize::from(slot)) {
                *of = Some(node);
                state.version += 1;
            }
        });
        Ok(())
    }

    /// Ends all connections, for good.
    pub(super) fn close(&self) {
        self.write(|state| state.closed = true);
        for node in self.primaries() {
            node.links.close();
        }
    }
}

fn server(config: Config) -> Result<Server, Failure> {
    Server::new(config).map_err(|error| Failure::new(error.kind(), error.to_string()))
}

/// Returns when the node is connected to, or is known never to be; never where it may yet be replaced.
async fn connected(node: Option<&Redis>) -> Result<(), Failure> {
    let Some(node) = node else { return pending().await };
    match node.links.live().await {
        Ok(_) => Ok(()),
        // It is a replica now.
        Err(failure) if failure.reaction == Reaction::Reconnect => pending().await,
        Err(failure) => Err(failure),
    }
}

/// Asks one node, over a connection that ends with the answer.
async fn ask(config: Config) -> Result<View, Failure> {
    let Address::Tcp { host, port } = config.address.clone() else {
        return Err(Failure::new(LockErrorKind::Unavailable, "no place to ask at"));
    };
    let server = server(config)?;
    let (connection, _driver) = dial::open(&server, Some(&(host.clone(), port))).await?;
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("CLUSTER").arg("INFO");
    questions.cmd("CLUSTER").arg("SLOTS");
    let answers = connection.clone().send_packed_commands(&questions, 0, 2).await;
    let answers = answers.map_err(|error| Failure::of(&error))?;
    let [info, slots] = answers.as_slice() else {
        return Err(Failure::new(LockErrorKind::Unavailable, "no answer"));
    };
    if let Value::ServerError(error) = slots {
        return Err(Failure::of_reply(error));
    }
    View::read(dial::text(info)?, slots, &host).ok_or_else(|| Failure::unexpected(slots))
}
