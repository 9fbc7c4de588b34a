//! The stores, and the locks that are held in them.

use std::time::Duration;

use lock_core::{LockGuard, LockManager, ManagerBuilder, strategy};
use lock_tests::{PATIENCE, PostgresServer, RedisServer, wait_until};
use tokio::task::JoinSet;

/// A lease that is longer than any test.
const LONG: Duration = Duration::from_secs(600);

/// The services that hold and wait. Each service has its own connections.
const SERVICES: [&str; 5] = ["shop", "billing", "warehouse", "mailer", "import"];

/// The number of requests that wait for a key of a [`Crowd`]. Each service except the holder has one.
pub(crate) const WAITERS: usize = SERVICES.len() - 1;

/// A real server.
pub(crate) enum Server {
    Redis(RedisServer),
    Postgres(PostgresServer),
}

/// A server with its name.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) server: Server,
}

impl Store {
    pub(crate) fn redis() -> Self {
        Self { name: "redis", server: Server::Redis(RedisServer::start()) }
    }

    pub(crate) fn postgres() -> Self {
        let server = PostgresServer::with(&["max_connections=300"]);
        Self { name: "postgres", server: Server::Postgres(server) }
    }

    /// Returns a manager for a service, with its own connections.
    pub(crate) async fn manager(&self, service: &str) -> LockManager {
        let url = match &self.server {
            Server::Redis(server) => format!("{}?timeout=10s", server.url()),
            Server::Postgres(server) => server.url(),
        };
        let builder = ManagerBuilder::connect(&url).await.expect("the server takes locks");
        builder.service(service).build().expect("settings that fit")
    }
}

/// Acquires a free key, with a lease that no test outlives.
pub(crate) async fn hold(locks: &LockManager, key: &str, label: &'static str) -> LockGuard {
    let request = locks.lock(key).label(label).ttl(LONG).strategy(strategy::fail_fast());
    request.acquire().await.expect("the key is free")
}

/// Locks that several services hold. Each service also waits for keys of the other services.
pub(crate) struct Crowd {
    pub(crate) guards: Vec<LockGuard>,
    _waiters: JoinSet<()>,
}

impl Crowd {
    /// Acquires `held` keys, and lets requests wait for the first `awaited` of these keys.
    pub(crate) async fn start(store: &Store, held: usize, awaited: usize) -> Self {
        let mut services = Vec::new();
        for service in SERVICES {
            services.push(store.manager(service).await);
        }
        let mut guards = Vec::new();
        for number in 0..held {
            guards.push(hold(&services[number % SERVICES.len()], &key(number), label(number)).await);
        }
        let mut waiters = JoinSet::new();
        for number in 0..awaited {
            for (place, service) in services.iter().enumerate() {
                if place != number % SERVICES.len() {
                    let request = service.fair(key(number)).label("retry").ttl(LONG).wait(LONG);
                    waiters.spawn(async move { drop(request.acquire().await) });
                }
            }
        }
        let crowd = Self { guards, _waiters: waiters };
        let locks = &services[0];
        wait_until("all requests wait", PATIENCE, async || {
            let listed = locks.locks().await.expect("an answer");
            listed.locks.iter().map(|lock| lock.waiting).sum::<usize>() == awaited * WAITERS
        })
        .await;
        crowd
    }

    /// Releases the lock with this number.
    pub(crate) async fn release(&mut self, number: usize) {
        let guard = self.guards.remove(number);
        guard.release().await.expect("an answer");
    }
}

/// Returns the key of the lock with this number.
pub(crate) fn key(number: usize) -> String {
    match number {
        0..300 => format!("order:{number:03}"),
        300..450 => format!("stock:sku-{number}"),
        _ => format!("import:nightly:{number}"),
    }
}

fn label(number: usize) -> &'static str {
    ["charge the card", "reserve", "send the invoice", "count"][number % 4]
}
