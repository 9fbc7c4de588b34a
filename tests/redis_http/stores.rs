//! The stores of the locks.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;
use lock_tests::{Proxy, RedisServer};

/// A manager, and everything that must live as long as the manager.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) locks: LockManager,
    server: Option<(Arc<Proxy>, RedisServer)>,
}

impl Store {
    pub(crate) fn memory() -> Self {
        Self { name: "memory", locks: LockManager::in_memory(), server: None }
    }

    /// Starts a real server with a delay of `each_way`.
    pub(crate) async fn far_away(each_way: Duration) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::before(&server);
        // On a busy machine, many simultaneous requests may wait for their answers.
        let url = format!("{}?timeout=10s", proxy.url());
        let locks = LockManager::connect(&url).await.expect("the server takes locks");
        if !each_way.is_zero() {
            proxy.delay(each_way);
        }
        Self { name: "redis", locks, server: Some((Arc::new(proxy), server)) }
    }

    /// Returns the proxy in front of the real server.
    pub(crate) fn proxy(&self) -> Arc<Proxy> {
        let (proxy, _) = self.server.as_ref().expect("a store that is far away");
        Arc::clone(proxy)
    }
}
