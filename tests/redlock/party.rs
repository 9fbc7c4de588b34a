//! One client of several servers, each with its own proxy, so that some of them can be unreachable for it.

use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::{LockError, LockManager};
use lock_tests::{Flow, Proxy, RedisServer};

async fn connect(proxies: &[Proxy], gate: Gate, max_ttl: Duration) -> Result<LockManager, LockError> {
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let builder = match gate {
        Gate::On => {
            let options = VoterOptions::new(max_ttl);
            let voters = Voter::connect_all(urls.iter().map(String::as_str), options).await?;
            LockManager::builder(Quorum::new(voters)?)
        }
        Gate::Off => {
            let mut nodes = Vec::new();
            for url in &urls {
                nodes.push(Redis::connect(url).await?);
            }
            LockManager::builder(Quorum::new(nodes)?)
        }
    };
    builder.ttl(max_ttl).build()
}

/// Whether the servers use the gate. Without the gate they are plain Redlock, which is the control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    On,
    Off,
}

#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) locks: LockManager,
    gate: Gate,
    max_ttl: Duration,
    proxies: Vec<Proxy>,
}

impl Party {
    pub(crate) async fn of(servers: &[&RedisServer], gate: Gate, max_ttl: Duration) -> Self {
        let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::before(server)).collect();
        let locks = connect(&proxies, gate, max_ttl).await.expect("they may vote");
        Self { locks, gate, max_ttl, proxies }
    }

    /// Drops everything that the client knows of the servers, like a process that starts. Keeps it if the client cannot
    /// connect now.
    pub(crate) async fn forget(&mut self) {
        self.proxies.iter().for_each(Proxy::heal);
        if let Ok(locks) = connect(&self.proxies, self.gate, self.max_ttl).await {
            self.locks = locks;
        }
    }

    /// Makes these servers refuse every connection, and all others accept connections.
    pub(crate) async fn refused_by(&self, away: &[usize]) {
        self.set(away, |proxy| {
            proxy.refuse(true);
            proxy.cut();
        });
        for number in away {
            self.proxies[*number].until("it is cut off", |traffic| traffic.open == 0).await;
        }
    }

    /// Delays all data for these servers until they are reachable again.
    pub(crate) fn held_before(&self, away: &[usize]) {
        self.set(away, |proxy| proxy.requests(Flow::Hold));
    }

    fn set(&self, away: &[usize], cut: impl Fn(&Proxy)) {
        for (number, proxy) in self.proxies.iter().enumerate() {
            proxy.heal();
            if away.contains(&number) {
                cut(proxy);
            }
        }
    }
}
