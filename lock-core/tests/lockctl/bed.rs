//! A store on which the cases run.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lock_tests::{Etcd, PostgresServer, RedisServer, ZooKeeperServers};

use crate::ctl::Ctl;

/// Prevents that the cases of two stores run at once, because the cases measure time.
static ONE_STORE: Mutex<()> = Mutex::new(());

/// A running store, and the way to stop it.
pub(crate) struct Bed {
    pub(crate) ctl: Ctl,
    /// The number of programs that acquire one lock at once.
    pub(crate) crowd: usize,
    /// Stops the server when it is called. The closure owns the server, so the server lives as long as this value.
    stop: Box<dyn Fn() + Sync>,
}

impl Bed {
    fn new(url: String, stop: impl Fn() + Sync + 'static) -> Self {
        Self { ctl: Ctl(url), crowd: 100, stop: Box::new(stop) }
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
        // Each program has several connections, and each connection is a process of the server.
        Self { crowd: 20, ..Self::new(url, move || server.stop()) }
    }

    pub(crate) fn etcd() -> Self {
        let server = Etcd::start();
        // Each session writes to the disk of the server several times.
        Self { crowd: 20, ..Self::new(server.url(), move || server.stop(0)) }
    }

    pub(crate) fn zookeeper() -> Self {
        let servers = ZooKeeperServers::start();
        // A session must not be longer than the shortest lease of the cases.
        let url = format!("{}?session_timeout=6s", servers.url("locks"));
        // The sessions are short. If a hundred programs start at once, one of them may miss the heartbeats of its
        // session.
        Self { crowd: 20, ..Self::new(url, move || servers.stop(0)) }
    }

    pub(crate) fn stop(&self) {
        (self.stop)();
    }
}
