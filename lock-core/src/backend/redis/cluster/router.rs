//! Keeps the assignment of slots to nodes, and requests it from the nodes when it is unknown or outdated.
//!
//! No task watches the Cluster. If a caller cannot reach a node or is redirected, it starts a *look*: a request for the
//! views of several nodes (see `discover.rs`). Only one look runs at a time, and all callers share its result.

use std::collections::HashMap;
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::sleep;

use super::discover;
use super::slot_map::SlotMap;
use crate::backend::BoxFuture;
use crate::backend::redis::command::Server;
use crate::backend::redis::config::Endpoint;
use crate::backend::redis::config::{Address, Config};
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::link::Shared;
use crate::backend::redis::primary::{Primary, Witness};
use crate::backend::redis::slot::SLOTS;
use crate::backend::remote::{Listeners, SingleFlight, tries};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind};
use crate::sync::RwLock;

/// The maximum number of known nodes in one look, and the maximum number of other nodes of the URL.
const ASKED: usize = 5;
/// The pause between two looks while a node is missing. A failover takes at least a second.
const PAUSE: Duration = Duration::from_millis(100);
/// A caller waits for the look of another caller at most for the time limit of one node plus this margin. The look
/// usually ends within this time. If no node is fast, or if the runtime of the look is blocked, the caller starts its
/// own look.
const MARGIN: Duration = Duration::from_millis(100);
/// After a node has lost all its slots, the router does not accept it as the next owner of a slot for this time. If the
/// node was paused, it learns of the failover within this time.
const FORMER: Duration = Duration::from_secs(60);
/// After a redirect has named a node as the next owner of a slot, the router accepts it as a primary for this time,
/// even if it has no slots yet.
const MOVING: Duration = Duration::from_secs(10);
/// The router accepts a view with an earlier epoch only after most nodes have reported earlier epochs for this time.
const BEHIND: Duration = Duration::from_secs(2);

/// The nodes of a Cluster.
pub(crate) struct Router {
    /// The settings and the listeners, from which the state of each node is created.
    cluster: Shared<Primary>,
    /// This is a `std` lock, so it must never be held across an await.
    state: RwLock<State>,
    /// Runs one look at a time, whose result all callers share.
    looks: SingleFlight<Result<(), Failure>>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("config", &self.cluster.config).finish_non_exhaustive()
    }
}

/// The state of the Cluster as this process knows it.
struct State {
    view: SlotMap,
    /// The node of each slot.
    slots: Vec<Option<Arc<Server>>>,
    nodes: HashMap<Endpoint, Arc<Server>>,
    /// Whether a redirect has changed the slots since the last view was adopted.
    overruled: bool,
    /// The first and the last time at which most nodes reported an earlier epoch than the view.
    behind: Option<(Moment, Moment)>,
    /// The nodes that a redirect has named as the next owner of a slot, with the time of the latest redirect.
    moving: HashMap<Endpoint, Moment>,
    /// The nodes that have lost all their slots, with the time of that loss. If such a node was paused, it still acts
    /// as a primary.
    former: HashMap<Endpoint, Moment>,
    /// The time since which only nodes of the URL answer, with views that have no node in common with the known view.
    others: Option<Moment>,
    /// A number that increases when the node of a slot changes.
    version: u64,
    closed: bool,
}

impl Router {
    /// Creates a router that initially has only the nodes of the URL.
    pub(super) fn new(config: Config) -> Result<Arc<Self>, LockError> {
        let patience = config.patience();
        let shared = Shared::new(config, Primary::alone())?;
        let state = State {
            view: SlotMap::default(),
            slots: vec![None; usize::from(SLOTS)],
            nodes: HashMap::new(),
            overruled: false,
            behind: None,
            moving: HashMap::new(),
            former: HashMap::new(),
            others: None,
            version: 0,
            closed: false,
        };
        // The nodes get weak references to the router, because the router owns the nodes.
        Ok(Arc::new_cyclic(|me: &Weak<Self>| Self {
            cluster: shared.with_role(Primary::node(me.clone())),
            state: RwLock::new(state),
            looks: SingleFlight::new(PAUSE, patience + MARGIN),
        }))
    }

    pub(crate) fn config(&self) -> &Config {
        &self.cluster.config
    }

    pub(crate) fn listeners(&self) -> &Listeners {
        self.cluster.listeners()
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read())
    }

    fn write<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        write(&mut self.state.write())
    }

    /// Returns the node that has the slot, according to the latest information.
    pub(super) fn node(&self, slot: u16) -> Option<Arc<Server>> {
        self.read(|state| state.slots[usize::from(slot)].clone())
    }

    /// Returns every node that has slots.
    pub(super) fn primaries(&self) -> Vec<Arc<Server>> {
        self.nodes_and_gaps().0.into_iter().map(|(_, node)| node).collect()
    }

    /// Returns each node that has slots, with one of its slots, and the number of slots without a node.
    pub(super) fn nodes_and_gaps(&self) -> (Vec<(u16, Arc<Server>)>, usize) {
        self.read(|state| {
            let mut nodes: Vec<(u16, Arc<Server>)> = Vec::new();
            for (slot, node) in (0..SLOTS).zip(&state.slots) {
                let Some(node) = node else { continue };
                // Most slots follow another slot of the same node, so the newest entries are compared first.
                if !nodes.iter().rev().any(|(_, known)| Arc::ptr_eq(known, node)) {
                    nodes.push((slot, Arc::clone(node)));
                }
            }
            (nodes, state.slots.iter().filter(|node| node.is_none()).count())
        })
    }

    /// Returns the reason why there is no connection to the node of the slot, or `None` if no reason is known.
    pub(super) fn missing(&self, slot: u16) -> Option<Failure> {
        // Neither pauses nor dials, because the caller has given up and needs only the reason.
        let Some(node) = self.node(slot) else { return Some(Redirect::Down.to_failure()) };
        Some(node.connections.failure()?.naming(node.shared().address()))
    }

    /// Waits for a connection to the node of the slot, and returns the node. This function has no deadline.
    pub(super) async fn ready(&self, slot: u16) -> Result<Arc<Server>, Failure> {
        loop {
            // The version is read before the node, so that a change in between is not missed.
            let (version, closed) = self.read(|state| (state.version, state.closed));
            if closed {
                return Err(Failure::new(LockErrorKind::ShuttingDown, "the connections were closed"));
            }
            let node = self.node(slot);
            if let Some(node) = node.as_ref().filter(|node| node.connections.current().is_some()) {
                return Ok(Arc::clone(node));
            }
            // The node may recover or be replaced, so the dial and the looks run at the same time.
            tokio::select! {
                connected = connected(node.as_deref()) => match connected {
                    Ok(()) => return node.ok_or_else(|| Failure::new(LockErrorKind::Unavailable, "no node")),
                    Err(failure) if failure.kind() == LockErrorKind::ShuttingDown => return Err(failure),
                    Err(failure) => {
                        // The server that refused may have left the Cluster, and another node may have its slots.
                        let looked = self.look_again().await;
                        if looked.is_err() || self.read(|state| state.version) == version {
                            return Err(failure);
                        }
                    }
                },
                () = self.learn(version) => {}
            }
        }
    }

    /// Waits until the node of a slot has changed since `version`.
    async fn learn(&self, version: u64) {
        loop {
            if let Err(failure) = self.look_again().await {
                // A failed look is not an error of the call, because the call repeats the look until its deadline.
                tracing::debug!(cluster = %self.cluster.config.address, ?failure, "no node says who has which slot");
            }
            if self.read(|state| state.version) != version {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Repeats the look until a node answers, or until the time limit of the first connection.
    pub(super) async fn find(&self) -> Result<(), Failure> {
        let (server, limit) = (&self.config().address, self.config().connect_timeout);
        let ask = |left| -> BoxFuture<'_, _> { Box::pin(self.looks.fresh(self.ask_around(left))) };
        tries::connect(server, limit, ask).await
    }

    /// Requests the assignment of the slots from some nodes. Shares the result of another look only if that look began
    /// after this call.
    pub(super) async fn look(&self) -> Result<(), Failure> {
        self.looks.fresh(self.ask_around(self.config().connect_timeout)).await
    }

    /// Requests the assignment like `look`, but accepts a recent result.
    pub(super) async fn look_again(&self) -> Result<(), Failure> {
        self.looks.recent(self.ask_around(self.config().patience_of_call())).await
    }

    async fn ask_around(&self, limit: Duration) -> Result<(), Failure> {
        let nodes = self.some().into_iter().map(|place| {
            let is_named =
                matches!(&self.cluster.config.address, Address::Cluster(seeds) if seeds.contains(&place));
            (self.shared(place), is_named)
        });
        let known = self.read(|state| state.view.clone());
        let patience = self.config().patience();
        let (view, most) = discover::around(nodes, &known, (limit, patience)).await?;
        self.adopt(view, most);
        Ok(())
    }

    /// Returns the addresses of some known nodes, and of some nodes of the URL in case all known nodes are gone.
    fn some(&self) -> Vec<Endpoint> {
        let mut places = self.read(|state| state.view.nodes());
        // Shuffles the addresses, so that each look requests the views of other nodes.
        fastrand::shuffle(&mut places);
        if let Address::Cluster(seeds) = &self.cluster.config.address {
            let mut seeds: Vec<_> = seeds.iter().filter(|seed| !places.contains(seed)).cloned().collect();
            fastrand::shuffle(&mut seeds);
            places.truncate(ASKED);
            places.extend(seeds.into_iter().take(ASKED));
        }
        places
    }

    /// Adopts a view if it is not outdated. `most` means that more than half of the nodes answered, and that no node
    /// sent a newer view.
    fn adopt(&self, view: SlotMap, most: bool) {
        let changed = self.write(|state| {
            let is_odd = match state.others_since(&view) {
                Some(since) => !(most && view.is_whole) || Clock::Suspend.now().since(since) < BEHIND,
                None => state.view.is_newer_than(&view) && !state.is_left_behind(&view, most),
            };
            if is_odd {
                return false;
            }
            state.others = None;
            state.note_former(&view);
            state.behind = None;
            // After a redirect, the slots differ from the known view. Then even an equal view counts as a change,
            // because the node that the redirect named may be gone.
            if state.view == view && !state.overruled {
                return false;
            }
            state.overruled = false;
            // Keeps the nodes that have slots now or will have slots soon. The connections of the other nodes end.
            let (mut nodes, mut slots) = (HashMap::new(), vec![None; usize::from(SLOTS)]);
            for (range, place) in view.ranges() {
                // If the last view has the node, the node and its connections are reused.
                let node = nodes.entry(place.clone()).or_insert_with(|| {
                    state.nodes.get(place).cloned().unwrap_or_else(|| self.make(place.clone()))
                });
                if let Some(slots) = slots.get_mut(range) {
                    slots.fill(Some(Arc::clone(node)));
                }
            }
            let same = |(old, new): (&Option<Arc<Server>>, &Option<Arc<Server>>)| {
                old.as_ref().map(Arc::as_ptr) == new.as_ref().map(Arc::as_ptr)
            };
            for place in state.next_of_slots(Clock::Suspend.now()) {
                if let Some(node) = state.nodes.get(&place) {
                    nodes.entry(place).or_insert_with(|| Arc::clone(node));
                }
            }
            let changed = !state.slots.iter().zip(&slots).all(same);
            (state.nodes, state.slots, state.view) = (nodes, slots, view);
            // Wakes the waiting callers only after a change. Without a change, they have already tried these nodes.
            state.version += u64::from(changed);
            changed
        });
        // Notifies the waiters after the state is unlocked, because a woken waiter may read its node at once.
        if changed {
            // A node that lost a slot no longer notifies the waiters of that slot, so the waiters must send heartbeats.
            self.cluster.listeners().reconnected();
        }
    }

    /// Creates the state that the connections to the node at `place` share.
    fn shared(&self, place: Endpoint) -> Shared<Primary> {
        self.cluster.sibling(self.cluster.config.of_node(place), self.cluster.role.sibling())
    }

    fn make(&self, place: Endpoint) -> Arc<Server> {
        Arc::new(Server::idle(Arc::new(self.shared(place))))
    }

    /// Returns the node that `by` has named as the next owner of a slot. That node may have no slots yet.
    pub(super) fn next_of_slot(&self, by: &Server, place: &Endpoint) -> Arc<Server> {
        let (place, now) = (named_by(by, place), Clock::Suspend.now());
        self.write(|state| {
            state.moving.retain(|_, named| now.since(*named) < MOVING);
            state.former.retain(|_, since| now.since(*since) < FORMER);
            if !state.former.contains_key(&place) {
                state.moving.insert(place.clone(), now);
            }
        });
        self.node_at(by, &place)
    }

    /// Returns the node at an address that the node `by` has named.
    pub(super) fn node_at(&self, by: &Server, place: &Endpoint) -> Arc<Server> {
        let place = named_by(by, place);
        if let Some(node) = self.read(|state| state.nodes.get(&place).cloned()) {
            return node;
        }
        let node = self.make(place.clone());
        // If another caller has created the node in the meantime, both use that node and its connections.
        self.write(|state| Arc::clone(state.nodes.entry(place).or_insert(node)))
    }

    /// Records a redirect: `by` has named another node for a slot.
    pub(super) fn moved(&self, slot: u16, by: &Server, place: &Endpoint) {
        let node = self.node_at(by, place);
        self.write(|state| {
            if let Some(of) = state.slots.get_mut(usize::from(slot)) {
                *of = Some(node);
                state.overruled = true;
                // Wakes the callers that wait for the previous node of the slot.
                state.version += 1;
            }
        });
    }

    /// Closes all connections permanently.
    pub(crate) fn close(&self) {
        // Sets the flag first, so that no caller waits for a node that is being closed.
        self.write(|state| state.closed = true);
        // Also closes the nodes that have no slots yet but to which a slot is being moved.
        let nodes: Vec<_> = self.read(|state| state.nodes.values().cloned().collect());
        nodes.iter().for_each(|node| node.close());
    }
}

/// Confirms a newly dialled server as a primary only if the other nodes agree. If a primary was paused and has lost its
/// slots, it still acts as a primary until the other nodes contact it.
impl Witness for Router {
    fn vouch<'a>(&'a self, place: &'a Endpoint) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            // Starts a new look, because a recent result may be older than the failover.
            self.look().await?;
            let now = Clock::Suspend.now();
            if self
                .read(|state| state.view.names(place) || state.next_of_slots(now).any(|next| next == *place))
            {
                return Ok(());
            }
            Err(Failure::new(LockErrorKind::Unavailable, "the other nodes name another one for its slots"))
        })
    }
}

/// Returns the address that the node `by` has named. An empty host means the host of `by`.
fn named_by(by: &Server, (host, port): &Endpoint) -> Endpoint {
    let host = match by.shared().address() {
        Address::Tcp { host: own, .. } if host.is_empty() => own.clone(),
        _ => host.clone(),
    };
    (host, *port)
}

impl State {
    /// Returns the time since which every view, including `view`, has had no node in common with the known view. All
    /// known nodes may then have been replaced. Returns `None` if `view` and the known view have a node in common.
    fn others_since(&mut self, view: &SlotMap) -> Option<Moment> {
        let is_other = view.is_of_others_than(&self.view);
        self.others = is_other.then(|| self.others.unwrap_or_else(|| Clock::Suspend.now()));
        self.others
    }

    /// Records the nodes that have slots in the known view but none in `view`.
    fn note_former(&mut self, view: &SlotMap) {
        let now = Clock::Suspend.now();
        self.former.retain(|place, since| !view.names(place) && now.since(*since) < FORMER);
        let former = self.view.ranges().map(|(_, place)| place).filter(|place| !view.names(place));
        self.former.extend(former.map(|place| (place.clone(), now)));
        self.moving.retain(|place, _| !self.former.contains_key(place));
    }

    /// Returns the nodes that redirects have recently named as the next owners of slots.
    fn next_of_slots(&self, now: Moment) -> impl Iterator<Item = Endpoint> + '_ {
        self.moving
            .iter()
            .filter(move |(_, named)| now.since(**named) < MOVING)
            .map(|(place, _)| place.clone())
    }

    /// Returns whether the known view belongs to a Cluster that no longer exists. If a Cluster is created again on the
    /// same addresses, its epochs start from the beginning. Nodes that have not noticed a failover also report an
    /// earlier epoch. So most nodes must report the earlier epoch for [`BEHIND`].
    fn is_left_behind(&mut self, view: &SlotMap, most: bool) -> bool {
        if !(most && view.is_whole) {
            return false;
        }
        let now = Clock::Suspend.now();
        // If the last such report is older than `BEHIND`, the measured time starts again.
        let first = self.behind.filter(|(_, last)| now.since(*last) < BEHIND).map_or(now, |(first, _)| first);
        self.behind = Some((first, now));
        now.since(first) >= BEHIND
    }
}

/// Waits until a connection to the node is up, or until connecting has failed permanently. Does not return while the
/// node may still be replaced.
async fn connected(node: Option<&Server>) -> Result<(), Failure> {
    // Without a node, there is nothing to connect to. Only the look, which runs at the same time, can find a node.
    let Some(node) = node else { return pending().await };
    match node.connections.get().await {
        Ok(_) => Ok(()),
        // The server is a replica now, so another node will get its slots.
        Err(failure) if failure.reaction == Reaction::Reconnect => pending().await,
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests;
