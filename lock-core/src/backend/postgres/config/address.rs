//! The address of one server, or of several servers with one primary.

use std::fmt;
use std::path::PathBuf;

use crate::backend::remote::host_port;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Tcp {
        host: String,
        port: u16,
    },
    /// The socket in a directory.
    Unix {
        directory: PathBuf,
        port: u16,
    },
}

/// The hosts of the servers. The primary is the host that accepts writes. The list is empty if the application opens
/// the connections and has named no host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) Vec<Host>);

impl Address {
    /// Returns the host names of the address. A socket has none.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|host| match host {
            Host::Tcp { host, .. } => Some(host.as_str()),
            Host::Unix { .. } => None,
        })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => f.write_str(&host_port(host, *port)),
            Self::Unix { directory, port } => write!(f, "{}:{port}", directory.display()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a connection of the application");
        }
        for (number, host) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(", ")?;
            }
            host.fmt(f)?;
        }
        Ok(())
    }
}
