//! Where a server listens.

use std::fmt;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend::redis) enum Address {
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
    /// Wherever the sentinels say.
    Sentinel(Sentinels),
    /// Wherever these, and the nodes that they know, say: host and port, at least one.
    Cluster(Vec<(String, u16)>),
}

/// Who knows where the primary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::backend::redis) struct Sentinels {
    /// Host and port; at least one.
    pub(in crate::backend::redis) places: Vec<(String, u16)>,
    /// The name under which they watch it.
    pub(in crate::backend::redis) master: String,
}

impl Address {
    /// Every host that it names.
    pub(in crate::backend::redis) fn hosts(&self) -> impl Iterator<Item = &str> {
        let (one, more): (_, &[(String, u16)]) = match self {
            Self::Tcp { host, .. } => (Some(host.as_str()), &[]),
            Self::Unix(_) => (None, &[]),
            Self::Sentinel(sentinels) => (None, &sentinels.places),
            Self::Cluster(places) => (None, places),
        };
        one.into_iter().chain(more.iter().map(|(host, _)| host.as_str()))
    }

    fn tcp(host: &str, port: u16) -> Self {
        Self::Tcp { host: host.to_owned(), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
            Self::Sentinel(sentinels) => {
                write!(f, "{} (by the sentinels {})", sentinels.master, listed(&sentinels.places))
            }
            Self::Cluster(places) => write!(f, "the cluster of {}", listed(places)),
        }
    }
}

fn listed(places: &[(String, u16)]) -> String {
    let places: Vec<_> = places.iter().map(|(host, port)| Address::tcp(host, *port).to_string()).collect();
    places.join(", ")
}
