//! The address of a server, or of several of which one is the primary.

use std::fmt;
use std::path::PathBuf;

/// One place where a server may listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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

/// The places of the servers. The primary is the one that takes writes. None where the application opens the
/// connections, and has not said where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) Vec<Place>);

impl Address {
    /// Returns every host that the address names.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|place| match place {
            Place::Tcp { host, .. } => Some(host.as_str()),
            Place::Unix { .. } => None,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix { directory, port } => write!(f, "{}:{port}", directory.display()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("a connection of the application");
        }
        for (number, place) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(", ")?;
            }
            place.fmt(f)?;
        }
        Ok(())
    }
}
