//! Chooses the server from which the store receives notifications.

use super::settings::{Config, Listen};

impl Config {
    /// Returns the settings of the listening connection, or `None` if there is no such connection. `pooled` means that
    /// a pooler that shares its connections answers at the address of the URL.
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

    /// Returns whether notifications should arrive from the address of the URL.
    pub(crate) fn is_expected_to_listen(&self) -> bool {
        matches!(self.listen, Listen::Here)
    }
}
