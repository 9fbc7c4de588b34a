//! Which node has a slot, found out when it is not known or not true any more.
//!
//! There is no task that watches the Cluster: whoever finds a node gone, or is sent to another one, learns where the slot
//! is now, and one at a time asks for everybody.

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
use crate::backend::remote::{Listeners, SingleFlight};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind};
use crate::sync::RwLock;

/// How many nodes are asked at once.
const ASKED: usize = 5;
/// The pause between two looks at the Cluster while a node is missing; a failover takes a second or more.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a look of another caller is waited for. It is over by then, unless its runtime is no longer driven.
const PATIENCE: Duration = Duration::from_millis(400);
/// How long most nodes have to tell of an earlier epoch than the one that is known, until they are believed.
const BEHIND: Duration = Duration::from_secs(2);

/// The nodes of a Cluster.
pub(crate) struct Router {
    /// What the nodes have in common.
    cluster: Shared<Primary>,
    /// A `std` lock: it is never held across an await.
    state: RwLock<State>,
    looks: SingleFlight<Result<(), Failure>>,
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("config", &self.cluster.config).finish_non_exhaustive()
    }
}

/// What is known of the Cluster.
struct State {
    view: SlotMap,
    /// The node of each slot.
    slots: Vec<Option<Arc<Server>>>,
    nodes: HashMap<Endpoint, Arc<Server>>,
    /// Whether a node has sent on to another one since the last view.
    overruled: bool,
    /// Since when most nodes tell of an earlier epoch than that of the view, and when they did the last time.
    behind: Option<(Moment, Moment)>,
    /// Grows when a slot gets another node.
    version: u64,
    closed: bool,
}

impl Router {
    /// Knows nothing but where to begin.
    pub(super) fn new(config: Config) -> Result<Arc<Self>, LockError> {
        let shared = Shared::new(config, Primary::alone())?;
        let state = State {
            view: SlotMap::default(),
            slots: vec![None; usize::from(SLOTS)],
            nodes: HashMap::new(),
            overruled: false,
            behind: None,
            version: 0,
            closed: false,
        };
        Ok(Arc::new_cyclic(|me: &Weak<Self>| Self {
            cluster: shared.with_role(Primary::node(me.clone())),
            state: RwLock::new(state),
            looks: SingleFlight::new(PAUSE, PATIENCE),
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

    /// The node that is taken for that of the slot.
    pub(super) fn node(&self, slot: u16) -> Option<Arc<Server>> {
        self.read(|state| state.slots[usize::from(slot)].clone())
    }

    /// Every node that has slots.
    pub(super) fn primaries(&self) -> Vec<Arc<Server>> {
        self.read(|state| {
            let mut nodes: Vec<Arc<Server>> = Vec::new();
            for node in state.slots.iter().flatten() {
                // Slots of one node stand in rows.
                let known = nodes.iter().rev().any(|known| Arc::ptr_eq(known, node));
                if !known {
                    nodes.push(Arc::clone(node));
                }
            }
            nodes
        })
    }

    /// Why there is no connection to the node of the slot, if it is known.
    pub(super) fn missing(&self, slot: u16) -> Option<Failure> {
        let Some(node) = self.node(slot) else { return Some(Redirect::Down.to_failure()) };
        Some(node.connections.failure()?.at(node.shared().address()))
    }

    /// The node of the slot, connected to; without a deadline of its own.
    pub(super) async fn ready(&self, slot: u16) -> Result<Arc<Server>, Failure> {
        loop {
            let (version, closed) = self.read(|state| (state.version, state.closed));
            if closed {
                return Err(Failure::new(LockErrorKind::ShuttingDown, "the connections were closed"));
            }
            let node = self.node(slot);
            if let Some(node) = node.as_ref().filter(|node| node.connections.current().is_some()) {
                return Ok(Arc::clone(node));
            }
            tokio::select! {
                connected = connected(node.as_deref()) => match connected {
                    Ok(()) => return node.ok_or_else(|| Failure::new(LockErrorKind::Unavailable, "no node")),
                    Err(failure) if failure.kind() == LockErrorKind::ShuttingDown => return Err(failure),
                    Err(failure) => {
                        // What refuses there may be no node of the Cluster any more, and another has its slots.
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

    /// Returns when something about the slots is known that was not at `version`.
    async fn learn(&self, version: u64) {
        loop {
            if let Err(failure) = self.look_again().await {
                tracing::debug!(cluster = %self.cluster.config.address, ?failure, "no node says who has which slot");
            }
            if self.read(|state| state.version) != version {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Asks until somebody answers, for as long as one dial may take.
    pub(super) async fn find(&self) -> Result<(), Failure> {
        let give_up = Clock::Suspend.now().plus(self.cluster.config.connect_timeout);
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
        self.looks.fresh(self.ask_around()).await
    }

    /// The same, unless somebody has just done so.
    pub(super) async fn look_again(&self) -> Result<(), Failure> {
        self.looks.recent(self.ask_around()).await
    }

    async fn ask_around(&self) -> Result<(), Failure> {
        let nodes = self.some().into_iter().map(|place| self.shared(place));
        let (view, most) = discover::around(nodes).await?;
        self.adopt(view, most);
        Ok(())
    }

    /// Where to ask: nodes that are known, and those of the URL, which may be all that is left.
    fn some(&self) -> Vec<Endpoint> {
        let mut places = self.read(|state| state.view.nodes());
        fastrand::shuffle(&mut places);
        if let Address::Cluster(seeds) = &self.cluster.config.address {
            let mut seeds: Vec<_> = seeds.iter().filter(|seed| !places.contains(seed)).cloned().collect();
            fastrand::shuffle(&mut seeds);
            places.truncate(ASKED);
            places.extend(seeds.into_iter().take(ASKED));
        }
        places
    }

    /// Takes a view for true, unless it is older than the last one; `most`: most of those who were asked tell nothing newer.
    fn adopt(&self, view: SlotMap, most: bool) {
        let changed = self.write(|state| {
            if state.view.is_newer_than(&view) && !state.is_left_behind(&view, most) {
                return false;
            }
            state.behind = None;
            // Where a node has sent on to one that is gone now, the same view is news.
            if state.view == view && !state.overruled {
                return false;
            }
            state.overruled = false;
            let (mut nodes, mut slots) = (HashMap::new(), Vec::with_capacity(usize::from(SLOTS)));
            for place in view.primaries() {
                slots.push(place.map(|place| self.known(state, &mut nodes, place)));
            }
            let same = |(old, new): (&Option<Arc<Server>>, &Option<Arc<Server>>)| match (old, new) {
                (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                (old, new) => old.is_none() && new.is_none(),
            };
            let changed = !state.slots.iter().zip(&slots).all(same);
            (state.nodes, state.slots, state.view) = (nodes, slots, view);
            state.version += u64::from(changed);
            changed
        });
        if changed {
            // Whoever waits at a node that has lost the slot is not told there any more.
            self.cluster.listeners().reconnected();
        }
    }

    fn known(
        &self,
        state: &State,
        nodes: &mut HashMap<Endpoint, Arc<Server>>,
        place: Endpoint,
    ) -> Arc<Server> {
        if let Some(node) = nodes.get(&place) {
            return Arc::clone(node);
        }
        let node = match state.nodes.get(&place) {
            Some(node) => Arc::clone(node),
            None => self.make(place.clone()),
        };
        nodes.insert(place, Arc::clone(&node));
        node
    }

    /// What the connections to the node at `place` share.
    fn shared(&self, place: Endpoint) -> Shared<Primary> {
        self.cluster.sibling(self.cluster.config.of_node(place), self.cluster.role.sibling())
    }

    fn make(&self, place: Endpoint) -> Arc<Server> {
        Arc::new(Server::idle(Arc::new(self.shared(place))))
    }

    /// The node at a place that another node has named.
    pub(super) fn at(&self, by: &Server, (host, port): &Endpoint) -> Arc<Server> {
        let host = match by.shared().address() {
            Address::Tcp { host: own, .. } if host.is_empty() => own.clone(),
            _ => host.clone(),
        };
        let place = (host, *port);
        if let Some(node) = self.read(|state| state.nodes.get(&place).cloned()) {
            return node;
        }
        let node = self.make(place.clone());
        self.write(|state| Arc::clone(state.nodes.entry(place).or_insert(node)))
    }

    /// Takes note that a node has named another one for a slot.
    pub(super) fn moved(&self, slot: u16, by: &Server, place: &Endpoint) {
        let node = self.at(by, place);
        self.write(|state| {
            if let Some(of) = state.slots.get_mut(usize::from(slot)) {
                *of = Some(node);
                state.overruled = true;
                state.version += 1;
            }
        });
    }

    /// Ends all connections, for good.
    pub(crate) fn close(&self) {
        self.write(|state| state.closed = true);
        for node in self.primaries() {
            node.close();
        }
    }
}

/// A node that was just connected to has slots if the others say so: one that was stopped for a while takes itself for the
/// primary when it goes on, until it hears of them.
impl Witness for Router {
    fn vouch<'a>(&'a self, place: &'a Endpoint) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            self.look().await?;
            if self.read(|state| state.view.names(place)) {
                return Ok(());
            }
            Err(Failure::new(LockErrorKind::Unavailable, "the other nodes name another one for its slots"))
        })
    }
}

impl State {
    /// Whether what is known is of a Cluster that is no more: one that was made anew on the same addresses begins to count
    /// its epochs again. A node alone that does not know of a failover yet must not be believed, nor must several of them
    /// in the moment after it.
    fn is_left_behind(&mut self, view: &SlotMap, most: bool) -> bool {
        if !(most && view.is_whole) {
            return false;
        }
        let now = Clock::Suspend.now();
        let first = self.behind.filter(|(_, last)| now.since(*last) < BEHIND).map_or(now, |(first, _)| first);
        self.behind = Some((first, now));
        now.since(first) >= BEHIND
    }
}

/// Returns when the node is connected to, or is known never to be; never where it may yet be replaced.
async fn connected(node: Option<&Server>) -> Result<(), Failure> {
    let Some(node) = node else { return pending().await };
    match node.connections.get().await {
        Ok(_) => Ok(()),
        // It is a replica now.
        Err(failure) if failure.reaction == Reaction::Reconnect => pending().await,
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use ::redis::Value;

    use super::*;

    fn router() -> Arc<Router> {
        Router::new(Config::parse("redis+cluster://a").expect("a URL")).expect("no files")
    }

    /// Of a Cluster of one node.
    fn view(epoch: u32, host: &str) -> SlotMap {
        let info = format!("cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\n");
        let node = Value::Array(vec![Value::SimpleString(host.to_owned()), Value::Int(1)]);
        let range = Value::Array(vec![Value::Int(0), Value::Int(i64::from(SLOTS) - 1), node]);
        SlotMap::read(&info, &Value::Array(vec![range]), host).expect("a view")
    }

    fn place(router: &Router, slot: u16) -> String {
        router.node(slot).expect("a node").shared().address().to_string()
    }

    /// It may be gone by then, and nobody else says anything new.
    #[test]
    fn a_view_that_did_not_change_overrules_a_node_that_sent_on() {
        let router = router();
        router.adopt(view(1, "a"), true);
        let by = router.node(7).expect("a node");
        router.moved(7, &by, &("b".to_owned(), 2));
        assert_eq!([place(&router, 7), place(&router, 8)], ["b:2", "a:1"]);
        router.adopt(view(1, "a"), true);
        assert_eq!(place(&router, 7), "a:1");
    }

    #[test]
    fn an_earlier_epoch_is_believed_when_most_nodes_stay_with_it() {
        let router = router();
        router.adopt(view(5, "a"), true);
        let tell = |most| router.adopt(view(1, "b"), most);
        let begin = |state: &mut State, ago: Duration, last: Duration| {
            let now = Clock::Suspend.now();
            let at = |ago: Duration| {
                Moment::from_parts({
                    let (mono, boot) = now.parts();
                    let ago = i64::try_from(ago.as_nanos()).expect("not so long ago");
                    (mono - ago, boot - ago)
                })
            };
            state.behind = Some((at(ago), at(last)));
        };
        tell(true);
        assert_eq!(place(&router, 0), "a:1", "it was told once");
        router.write(|state| begin(state, 10 * BEHIND, 2 * BEHIND));
        tell(true);
        assert_eq!(place(&router, 0), "a:1", "what was told before is long ago");
        router.write(|state| begin(state, BEHIND, BEHIND / 2));
        tell(false);
        assert_eq!(place(&router, 0), "a:1", "one node alone may have slept");
        tell(true);
        assert_eq!(place(&router, 0), "b:1");
    }
}
