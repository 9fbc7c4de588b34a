//! The stores, and the number of entries that remain in each.

use std::time::Duration;

use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_tests::{Etcd, PostgresServer, RedisServer, ZooKeeperServers};
use zookeeper_client::Client;

/// Counts the rows of used keys in all tables.
const ROWS: &str = "SELECT (SELECT count(*) FROM lock_core.keys) + (SELECT count(*) FROM lock_core.holders) \
                    + (SELECT count(*) FROM lock_core.waiters)";

/// The longest lease on a majority.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(5);

/// A server with locks, or the memory of the process.
#[allow(clippy::large_enum_variant, reason = "a test has one")]
pub(crate) enum Store {
    Memory,
    Redis(RedisServer),
    Redlock([RedisServer; 3]),
    Etcd(Etcd),
    ZooKeeper(ZooKeeperServers, Client),
    Postgres(PostgresServer),
}

impl Store {
    pub(crate) fn redis() -> Self {
        Self::Redis(RedisServer::start())
    }

    pub(crate) async fn redlock() -> Self {
        let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
        let urls = servers.each_ref().map(RedisServer::url);
        // These servers vote at once.
        let voters =
            Voter::bootstrap_new_cluster(urls.iter().map(String::as_str), VoterOptions::new(MAX_TTL));
        voters.await.expect("they are empty");
        Self::Redlock(servers)
    }

    pub(crate) fn etcd() -> Self {
        Self::Etcd(Etcd::start())
    }

    pub(crate) async fn zookeeper() -> Self {
        let servers = ZooKeeperServers::builder().tick(Duration::from_secs(1)).start();
        let client = Client::connect(&servers.hosts()).await.expect("the server has sessions");
        Self::ZooKeeper(servers, client)
    }

    pub(crate) fn postgres() -> Self {
        Self::Postgres(PostgresServer::start())
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis(_) => "redis",
            Self::Redlock(_) => "redlock",
            Self::Etcd(_) => "etcd",
            Self::ZooKeeper(..) => "zookeeper",
            Self::Postgres(_) => "postgres",
        }
    }

    /// Returns the URL. Calls may take long, because the test is not about a busy machine.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Memory => "memory://".to_owned(),
            Self::Redis(server) => format!("{}?timeout=10s", server.url()),
            Self::Redlock(servers) => {
                let hosts = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port()));
                format!("redlock://{}/?max_ttl=5s&timeout=2s", hosts.join(","))
            }
            Self::Etcd(server) => format!("{}?timeout=10s", server.url()),
            Self::ZooKeeper(servers, _) => format!("{}?session_timeout=10s", servers.url("locks")),
            Self::Postgres(server) => server.url(),
        }
    }

    /// Returns whether the store supports permits and an order of arrival.
    pub(crate) fn has_order(&self) -> bool {
        !matches!(self, Self::Redlock(_))
    }

    /// Returns how long the store may keep data of a key. This is a minute, and ten leases more for a fencing token on
    /// Redis.
    pub(crate) fn keeps(&self, ttl: Duration) -> Duration {
        const MINUTE: Duration = Duration::from_secs(60);
        if matches!(self, Self::Redis(_) | Self::Redlock(_)) { MINUTE + ttl * 10 } else { MINUTE }
    }

    /// Returns the size of the server's data in memory or on the disk in bytes, if the server reports it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Redis(server) => server.info("used_memory").parse().expect("a size"),
            Self::Redlock(servers) => servers[0].info("used_memory").parse().expect("a size"),
            Self::Etcd(server) => server.metric("etcd_mvcc_db_total_size_in_bytes") as usize,
            Self::ZooKeeper(servers, _) => {
                let answer = servers.ask(0, "mntr").unwrap_or_default();
                let size = answer.lines().find_map(|line| line.strip_prefix("zk_approximate_data_size"));
                size.and_then(|size| size.trim().parse().ok()).unwrap_or(0)
            }
            Self::Postgres(server) => {
                server.sql("SELECT pg_database_size(current_database())").trim().parse().expect("a size")
            }
            Self::Memory => 0,
        }
    }

    /// Returns the number of keys, nodes, rows and leases.
    pub(crate) async fn left(&self) -> usize {
        match self {
            Self::Memory => 0,
            Self::Redis(server) => keys(server),
            // One key on each server is the marker of the voter.
            Self::Redlock(servers) => {
                servers.iter().map(|server| keys(server).saturating_sub(1)).max().unwrap_or(0)
            }
            Self::Etcd(server) => server.metric("etcd_debugging_mvcc_keys_total") as usize + server.leases(),
            Self::ZooKeeper(_, client) => match client.check_stat("/locks").await.expect("an answer") {
                Some(stat) => usize::try_from(stat.num_children).expect("a count"),
                None => 0,
            },
            Self::Postgres(server) => server.sql(ROWS).trim().parse().expect("a count"),
        }
    }
}

fn keys(server: &RedisServer) -> usize {
    server.get(&["DBSIZE"])
}
