//! A store for the cases.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_tests::{Etcd, PostgresServer, RedisServer, ZooKeeperServers};

use crate::ctl::Ctl;

/// Keeps the cases of one store from those of another: they measure time.
static ONE_STORE: Mutex<()> = Mutex::new(());

/// A store, and how it is taken away.
pub(crate) struct Bed {
    pub(crate) ctl: Ctl,
    /// How many take one lock at once.
    pub(crate) crowd: usize,
    /// Keeps the server, and stops it when it is called.
    stop: Box<dyn Fn() + Sync>,
}

impl Bed {
    fn new(url: String, stop: impl Fn() + Sync + 'static) -> Self {
        Self { ctl: Ctl(url), crowd: 100, stop: Box::new(stop) }
    }

    /// Waits until no other store has its cases.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        ONE_STORE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn redis() -> Self {
        let server = RedisServer::start();
        Self::new(format!("{}?connect_timeout=60s", server.url()), move || server.stop())
    }

    pub(crate) fn postgres() -> Self {
        let server = PostgresServer::with(&["max_connections=400"]);
        let url = format!("{}&connect_timeout=60s", server.url());
        // Each has several connections, each of which is a process of the server.
        Self { crowd: 20, ..Self::new(url, move || server.stop()) }
    }

    pub(crate) fn etcd() -> Self {
        let server = Etcd::start();
        // Each of its sessions writes to the disk of the server several times.
        Self { crowd: 20, ..Self::new(server.url(), move || server.stop(0)) }
    }

    pub(crate) fn zookeeper() -> Self {
        let servers = ZooKeeperServers::start();
        // The leases of the cases are not shorter than their sessions.
        let url = format!("{}?session_timeout=6s", servers.url("locks"));
        // Their sessions are short, and a hundred programs that start at once can keep one from its heartbeats.
        Self { crowd: 20, ..Self::new(url, move || servers.stop(0)) }
    }

    pub(crate) fn stop(&self) {
        (self.stop)();
    }
}
