//! The address of a store.

use std::fmt;
use std::path::PathBuf;

use crate::backend::remote::host_port;

/// The host and the port of a server.
pub(crate) type Endpoint = (String, u16);

/// The address of a store: one server, the sentinels of a primary, or the nodes of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
    /// The primary that the sentinels name.
    Sentinel(Sentinels),
    /// The nodes of a Cluster that the URL names: at least one. These nodes return the addresses of the others.
    Cluster(Vec<Endpoint>),
}

/// The sentinels of one primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// The addresses of the sentinels. There is at least one.
    pub(crate) places: Vec<Endpoint>,
    /// The name of the primary in the configuration of the sentinels.
    pub(crate) master: String,
}

impl Address {
    /// Returns every host that the address names.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        let (one, more): (_, &[Endpoint]) = match self {
            Self::Tcp { host, .. } => (Some(host.as_str()), &[]),
            Self::Unix(_) => (None, &[]),
            Self::Sentinel(sentinels) => (None, &sentinels.places),
            Self::Cluster(places) => (None, places),
        };
        one.into_iter().chain(more.iter().map(|(host, _)| host.as_str()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => f.write_str(&host_port(host, *port)),
            Self::Unix(path) => path.display().fmt(f),
            Self::Sentinel(sentinels) => {
                write!(f, "{} (by the sentinels {})", sentinels.master, listed(&sentinels.places))
            }
            Self::Cluster(places) => write!(f, "the cluster of {}", listed(places)),
        }
    }
}

fn listed(places: &[Endpoint]) -> String {
    let places: Vec<_> = places.iter().map(|(host, port)| host_port(host, *port)).collect();
    places.join(", ")
}
