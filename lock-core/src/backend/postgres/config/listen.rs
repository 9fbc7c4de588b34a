//! Where notifications are listened for.

use super::{Address, Config};

/// Where notifications are listened for.
#[derive(Clone, Debug)]
pub(crate) enum Listen {
    /// At the address of the URL, unless a pooler answers there that shares its connections.
    Here,
    /// At another address: past the pooler.
    At(Address),
    /// With settings of their own.
    With(Box<Config>),
    /// Nowhere: waiters rely on their heartbeats.
    Off,
}

impl Config {
    /// Returns the settings of the listening connection. Returns `None` if there is none: `pooled` says whether a
    /// pooler that shares its connections answers at the address of the URL.
    pub(crate) fn listening(&self, pooled: bool) -> Option<Self> {
        match &self.listen {
            Listen::Off => None,
            Listen::Here if pooled => None,
            Listen::Here => Some(self.clone()),
            Listen::At(address) => {
                Some(Self { address: address.clone(), session_pooling: false, ..self.clone() })
            }
            Listen::With(config) => Some((**config).clone()),
        }
    }

    /// Returns whether the URL leaves it to the server whether notifications are listened for.
    pub(crate) fn is_expected_to_listen(&self) -> bool {
        matches!(self.listen, Listen::Here)
    }
}
