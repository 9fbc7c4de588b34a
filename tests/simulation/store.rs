//! The store from which a client gets its locks.

use lock_core::backend::Backend;
use lock_core::backend::redis::Redis;
use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::owner::Identity;
use lock_core::{LockManager, ManagerBuilder, Result};

use crate::plan::Plan;
use crate::planted::{Mistake, Planted};

/// The store of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The store as users configure it: `redlock://`.
    #[default]
    Redlock,
    /// The same servers without the gate, which is Redlock as it is described elsewhere.
    Ungated,
    /// The client of the store makes a mistake.
    Mistaken(Mistake),
}

impl Kind {
    pub(crate) fn is_gated(self) -> bool {
        self != Self::Ungated
    }
}

pub(crate) async fn connect(kind: Kind, plan: &Plan) -> Result<LockManager> {
    let hosts: Vec<String> = (0..plan.servers).map(|number| format!("s{number}")).collect();
    let urls: Vec<String> = hosts.iter().map(|host| format!("redis://{host}/")).collect();
    match kind {
        Kind::Redlock => {
            let url = format!("redlock://{}/?max_ttl={}ms", hosts.join(","), plan.max_ttl.as_millis());
            ManagerBuilder::connect(&url).await?.ttl(plan.max_ttl).service(service()).build()
        }
        Kind::Ungated => {
            let mut servers = Vec::new();
            for url in &urls {
                servers.push(Redis::connect(url).await?);
            }
            manager(Quorum::new(servers)?, plan)
        }
        Kind::Mistaken(mistake) => {
            let options = VoterOptions::new(plan.max_ttl);
            let voters = Voter::connect_all(urls.iter().map(String::as_str), options).await?;
            match mistake {
                // A quorum itself releases requests that were not answered, so this mistake is planted below the
                // quorum.
                Mistake::RetryWithNewToken => manager(Quorum::new(Planted::each(voters, mistake))?, plan),
                _ => manager(Planted::new(Quorum::new(voters)?, mistake), plan),
            }
        }
    }
}

fn manager(backend: impl Backend, plan: &Plan) -> Result<LockManager> {
    LockManager::builder(backend).ttl(plan.max_ttl).service(service()).build()
}

/// Returns the name of a service with which every owner record has the same length. The record also contains the host
/// name and the process id of the simulating machine. A world must depend on its seed alone, and the length of a
/// request decides which data are sent in the same write.
pub(crate) fn service() -> String {
    const LENGTH: usize = 80;
    let identity = Identity::of_this_process("");
    let used = identity.host().len() + identity.pid().to_string().len();
    "s".repeat(LENGTH.saturating_sub(used))
}
