//! What stands upon a connection, as far as the connection has to know it.

use std::fmt;
use std::time::Duration;

use crate::clock::Moment;

/// What a [role](super::Role) keeps for each connection.
pub(crate) trait SessionState: fmt::Debug + Send + Sync + 'static {
    /// Receives each reading of the server's clock: it said `now` (in us) some time between `sent` and `received`.
    fn clock(&self, _now: i64, _sent: Moment, _received: Moment) {}

    /// Returns how much later than others an answer may come over this connection, where a call may take `timeout`.
    fn delay(&self, _timeout: Duration) -> Duration {
        Duration::ZERO
    }
}
