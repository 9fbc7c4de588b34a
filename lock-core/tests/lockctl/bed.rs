//! A store on which the cases run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_tests::{Etcd, PostgresServer, RedisServer, ZooKeeperServers};

use crate::ctl::Ctl;

/// Prevents that the cases of two stores run at once, because the cases measure time.
static ONE_STORE: Mutex<()> = Mutex::new(());

/// A running store, and the way to stop it.
pub(crate) struct Bed {
    pub(crate) ctl: Ctl,
    /// Stops the server when it is called. The closure owns the server, so the server lives as long as this value.
    stop: Box<dyn Fn() + Sync>,
}

impl Bed {
    fn new(url: String, stop: impl Fn() + Sync + 'static) -> Self {
        Self { ctl: Ctl(url), stop: Box::new(stop) }
    }

    /// Waits until the cases of other stores have ended.
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
        Self::new(url, move || server.stop())
    }

    pub(crate) fn etcd() -> Self {
        let server = Etcd::start();
        Self::new(server.url(), move || server.stop(0))
    }

    pub(crate) fn zookeeper() -> Self {
        let servers = ZooKeeperServers::start();
        // A session must not be longer than the shortest lease of the cases.
        let url = format!("{}?session_timeout=6s", servers.url("locks"));
        Self::new(url, move || servers.stop(0))
    }

    pub(crate) fn stop(&self) {
        (self.stop)();
    }
}
