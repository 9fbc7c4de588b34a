//! A Redis Cluster: three primaries, each with a replica.

use std::sync::mpsc;
use std::time::Duration;

use crate::port::Port;
use crate::redis_server::{RedisBuilder, RedisServer};
use crate::starts::start_in_turn;
use crate::wait::{Bound, START_WITHIN, monotonic};

/// The time after which a silent node counts as dead. It is longer than a busy machine delays a node. A test that needs
/// a failover sets a shorter time.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;

/// Six nodes. A failover takes one to two seconds longer than the setting `cluster-node-timeout`, by default 5 s.
#[derive(Debug)]
pub struct RedisCluster {
    /// The first primaries in the order of their slots, then their replicas in the same order.
    pub nodes: Vec<RedisServer>,
    /// The ports over which the nodes communicate with each other.
    buses: Vec<Port>,
}

impl RedisCluster {
    /// Starts the nodes, and returns when all nodes agree.
    ///
    /// # Panics
    /// When Redis is not installed, is older than 7.0, or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(|_, node| node)
    }

    /// Starts the nodes with further settings for each node, by its number. Otherwise like [`start`](Self::start).
    ///
    /// # Panics
    /// When the conditions of [`start`](Self::start) apply.
    #[must_use]
    pub fn start_with(more: impl Fn(usize, RedisBuilder) -> RedisBuilder) -> Self {
        start_in_turn(|| {
            let buses: Vec<Port> = (0..2 * PRIMARIES).map(|_| Port::reserve()).collect();
            let nodes =
                buses.iter().enumerate().map(|(number, bus)| more(number, node(bus)).start()).collect();
            let made = Self { nodes, buses };
            made.assemble(&(0..2 * PRIMARIES).collect::<Vec<_>>());
            made
        })
    }

    /// Creates a Cluster of nodes that do not know each other yet. The first half of `order` become primaries.
    fn assemble(&self, order: &[usize]) {
        let nodes: Vec<&RedisServer> = order.iter().map(|number| &self.nodes[*number]).collect();
        for (number, node) in nodes.iter().enumerate() {
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            if number < PRIMARIES {
                let [first, last] = [number * SLOTS / PRIMARIES, (number + 1) * SLOTS / PRIMARIES - 1]
                    .map(|slot| slot.to_string());
                node.command(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            }
        }
        for number in &order[1..] {
            let (node, bus) = (&self.nodes[*number], &self.buses[*number]);
            let [port, bus] = [node.cluster_port(), bus.address().port()].map(|port| port.to_string());
            nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let known = (2 * PRIMARIES).to_string();
        self.wait("every node knows all", |node| field(node, "cluster_known_nodes") == known);
        for (primary, replica) in nodes.iter().zip(&nodes[PRIMARIES..]) {
            let id = id(primary);
            Bound::new(START_WITHIN).block_until("a node becomes a replica", || {
                replica.try_command(&["CLUSTER", "REPLICATE", &id]).is_ok()
            });
        }
        self.wait("every node finds the cluster whole", |node| field(node, "cluster_state") == "ok");
        let replicas = &nodes[PRIMARIES..];
        Bound::new(START_WITHIN).block_until("every replica is linked", || {
            replicas
                .iter()
                .all(|node| node.info("role") == "slave" && node.info("master_link_status") == "up")
        });
        self.wait("every node knows all replicas", |node| {
            let nodes: String = node.get(&["CLUSTER", "NODES"]);
            nodes.lines().filter(|line| line.contains("slave")).count() == PRIMARIES
        });
    }

    /// Adds a primary without slots, which every node knows. Returns its number.
    ///
    /// # Panics
    /// When a node does not answer.
    pub fn add_node(&mut self) -> usize {
        let bus = Port::reserve();
        let server = node(&bus).start();
        let [port, at] = [server.cluster_port(), bus.address().port()].map(|port| port.to_string());
        self.nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &at]);
        self.nodes.push(server);
        self.buses.push(bus);
        let known = self.nodes.len().to_string();
        self.wait("every node knows all", |node| field(node, "cluster_known_nodes") == known);
        self.wait("every node finds the cluster whole", |node| field(node, "cluster_state") == "ok");
        self.nodes.len() - 1
    }

    /// Returns `redis+cluster://` with the first two nodes.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", self.nodes[0].port(), self.nodes[1].port())
    }

    /// Returns the number of the primary that initially has the slot of a key.
    ///
    /// # Panics
    /// When no node answers.
    #[must_use]
    pub fn number_of(&self, key: &str) -> usize {
        let slot = self.slot(key);
        (0..PRIMARIES).find(|number| slot < (number + 1) * SLOTS / PRIMARIES).expect("a slot")
    }

    /// Returns the slot of a key, as a node reports it.
    ///
    /// # Panics
    /// When no node answers.
    #[must_use]
    pub fn slot(&self, key: &str) -> usize {
        let ask = |node: &RedisServer| node.try_command(&["CLUSTER", "KEYSLOT", key]).ok();
        let slot = self.nodes.iter().find_map(ask).expect("a node answers");
        redis::from_redis_value(slot).expect("a number")
    }

    /// Waits until a replica has replaced a primary.
    ///
    /// # Panics
    /// When no replica replaces it.
    pub fn wait_promoted(&self, number: usize) {
        let replica = &self.nodes[PRIMARIES + number];
        Bound::new(START_WITHIN).block_until("the replica is promoted", || replica.info("role") == "master");
    }

    /// Starts to watch a primary. The channel receives the time at which its replica replaces it, by [`monotonic`].
    ///
    /// # Panics
    /// When the replica does not answer.
    #[must_use]
    pub fn promoted(&self, number: usize) -> mpsc::Receiver<Duration> {
        let client = redis::Client::open(self.nodes[PRIMARIES + number].url()).expect("a URL");
        let mut connection = client.get_connection_with_timeout(START_WITHIN).expect("the replica answers");
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            Bound::new(START_WITHIN).block_until("the replica is promoted", || {
                let role: redis::RedisResult<Vec<redis::Value>> = redis::cmd("ROLE").query(&mut connection);
                role.is_ok_and(|role| role.first() == Some(&redis::Value::BulkString(b"master".to_vec())))
            });
            let _ = tell.send(monotonic());
        });
        told
    }

    /// Begins to move a slot from one primary to another. From then on the first node redirects requests for keys that
    /// have already moved.
    ///
    /// # Panics
    /// When a node refuses.
    pub fn begin_move(&self, slot: usize, from: usize, to: usize) {
        let slot = slot.to_string();
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        target.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(source)]);
        source.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(target)]);
    }

    /// Returns the text of `key` on the replica of the primary with this number.
    ///
    /// # Panics
    /// When the replica does not answer, or has no such key.
    #[must_use]
    pub fn read_replica(&self, number: usize, key: &str) -> String {
        let client = redis::Client::open(self.nodes[number + PRIMARIES].url()).expect("a URL");
        let mut connection = client.get_connection().expect("the replica answers");
        redis::cmd("READONLY").exec(&mut connection).expect("a node of a Cluster");
        let read = redis::cmd("GET").arg(key).query(&mut connection);
        read.unwrap_or_else(|error| panic!("GET {key} of the replica: {error}"))
    }

    /// Returns the time to live of a key on one node in ms, even while its slot is being moved to that node.
    ///
    /// # Panics
    /// When the node refuses.
    #[must_use]
    pub fn pttl(&self, number: usize, key: &str) -> i64 {
        let client = redis::Client::open(self.nodes[number].url()).expect("a URL");
        let mut connection = client.get_connection_with_timeout(START_WITHIN).expect("the node answers");
        let _: () = redis::cmd("ASKING").query(&mut connection).expect("a node of a cluster");
        redis::cmd("PTTL").arg(key).query(&mut connection).expect("the key is here or was never")
    }

    /// Moves one key of a slot that is being moved.
    ///
    /// # Panics
    /// When a node refuses.
    pub fn move_key(&self, key: &str, from: usize, to: usize) {
        let port = self.nodes[to].port().to_string();
        self.nodes[from].command(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    }

    /// Returns the source and the destination of a slot that is being moved.
    ///
    /// # Panics
    /// When a node does not answer.
    #[must_use]
    pub fn moving(&self, slot: usize) -> Option<(usize, usize)> {
        // The node shows `[slot->-id]` on the source, and `[slot-<-id]` on the destination.
        let side = |arrow: &str| {
            (0..PRIMARIES).find(|number| {
                let nodes: String = self.nodes[*number].get(&["CLUSTER", "NODES"]);
                nodes.contains(&format!("[{slot}{arrow}"))
            })
        };
        Some((side("->-")?, side("-<-")?))
    }

    /// Moves the remaining keys of a slot, and assigns it to its new node.
    ///
    /// # Panics
    /// When a node refuses.
    pub fn end_move(&self, slot: usize, from: usize, to: usize) {
        let slot = slot.to_string();
        let keys: Vec<String> = self.nodes[from].get(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]);
        for key in keys {
            self.move_key(&key, from, to);
        }
        for number in [to, from] {
            self.nodes[number].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(&self.nodes[to])]);
        }
    }

    /// Waits until all nodes have reached `epoch`.
    ///
    /// # Panics
    /// When the nodes do not reach it.
    pub fn wait_epoch(&self, epoch: u64) {
        self.wait("the epoch is known", |node| {
            field(node, "cluster_current_epoch").parse::<u64>().is_ok_and(|current| current >= epoch)
        });
    }

    /// Creates another Cluster of the same nodes. Its epochs start again, and the former replicas are its primaries.
    ///
    /// # Panics
    /// When a node refuses.
    pub fn make_anew(&self) {
        for node in &self.nodes[..PRIMARIES] {
            node.command(&["FLUSHALL"]);
        }
        for node in self.nodes.iter().rev() {
            node.command(&["CLUSTER", "RESET", "HARD"]);
        }
        let order: Vec<usize> = (PRIMARIES..2 * PRIMARIES).chain(0..PRIMARIES).collect();
        self.assemble(&order);
    }

    fn wait(&self, what: &str, condition: impl Fn(&RedisServer) -> bool) {
        Bound::new(START_WITHIN).block_until(what, || self.nodes.iter().all(&condition));
    }
}

fn node(bus: &Port) -> RedisBuilder {
    // A node does nothing else while it writes `nodes.conf` to the disk.
    RedisServer::builder()
        .in_memory()
        .config("cluster-enabled", "yes")
        .config("cluster-port", &bus.address().port().to_string())
        .config("cluster-node-timeout", &NODE_TIMEOUT.as_millis().to_string())
}

fn id(node: &RedisServer) -> String {
    node.get(&["CLUSTER", "MYID"])
}

/// Returns one field of `CLUSTER INFO`.
fn field(node: &RedisServer, name: &str) -> String {
    let text: String = node.get(&["CLUSTER", "INFO"]);
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}
