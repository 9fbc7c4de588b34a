//! The facts that `doctor` has read from the servers.

use std::time::Duration;

use zookeeper_client::Acl;

use crate::backend::zookeeper::config::Config;

#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) config: Config,
    /// The session timeout that the servers granted.
    pub(super) given: Duration,
    /// The ensemble; `None` if it could not be read.
    pub(super) ensemble: Option<Ensemble>,
    /// The number of nodes in the directory of the locks.
    pub(super) children: i32,
    /// The access control list of the directory of the locks; empty if it was not read.
    pub(super) acl: Vec<Acl>,
    pub(super) quotas: Vec<Quota>,
    /// The number of addresses to which the URL leads.
    pub(super) addresses: usize,
    /// The servers of the URL that do not answer, each with the reason.
    pub(super) silent: Vec<(String, String)>,
    /// The nodes that this user may not read.
    pub(super) unread: Vec<String>,
}

/// The ensemble, as the servers list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ensemble {
    /// The servers with a vote.
    pub(super) voters: usize,
    /// Whether all votes count the same.
    pub(super) is_plain: bool,
}

impl Ensemble {
    /// Parses the content of `/zookeeper/config`. The content is empty on a server that runs alone.
    pub(super) fn read(config: &[u8]) -> Self {
        let text = String::from_utf8_lossy(config);
        let servers = text.lines().filter(|line| line.starts_with("server."));
        let voters = servers.filter(|line| role_of(line) != "observer").count().max(1);
        let is_plain = !text.lines().any(|line| line.starts_with("group.") || line.starts_with("weight."));
        Self { voters, is_plain }
    }
}

/// Returns the role of the server in `server.1=host:port:port:role;port for clients`.
fn role_of(line: &str) -> &str {
    let peer = line.split(';').next().unwrap_or_default();
    peer.rsplit(':').next().unwrap_or_default().trim()
}

/// The quota of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) path: String,
    pub(super) nodes: Limits,
    pub(super) bytes: Limits,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) used: i64,
    /// The limit above which the servers only write to their log.
    pub(super) soft: Option<i64>,
    /// The limit above which the servers refuse requests, if they enforce quotas.
    pub(super) hard: Option<i64>,
}

impl Quota {
    /// Parses limits such as `count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=-1`, and a usage such as
    /// `count=2,bytes=12`. -1 means no limit.
    pub(super) fn read(path: &str, limits: &[u8], used: &[u8]) -> Self {
        let number = |text: &[u8], name: &str| -> Option<i64> {
            let text = String::from_utf8_lossy(text);
            let mut parts = text.split([',', ';']).filter_map(|part| part.split_once('='));
            let (_, value) = parts.find(|(of, _)| of.trim() == name)?;
            value.trim_end_matches('=').trim().parse().ok().filter(|number| *number >= 0)
        };
        let of = |name, hard| Limits {
            used: number(used, name).unwrap_or(0),
            soft: number(limits, name),
            hard: number(limits, hard),
        };
        Self {
            path: path.to_owned(),
            nodes: of("count", "countHardLimit"),
            bytes: of("bytes", "byteHardLimit"),
        }
    }
}
