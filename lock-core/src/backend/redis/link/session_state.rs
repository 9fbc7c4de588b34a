//! The interface through which a connection uses the state of its role.

use std::fmt;
use std::time::Duration;

use crate::clock::Moment;

/// The state that a [role](super::Role) keeps for each connection.
pub(crate) trait SessionState: fmt::Debug + Send + Sync + 'static {
    /// Receives each reading of the server's clock. The clock showed `now` (in us) at a moment between `sent` and
    /// `received`.
    fn clock(&self, _now: i64, _sent: Moment, _received: Moment) {}

    /// Returns how much longer an answer over this connection may take because of other commands. `timeout` is the time
    /// limit of a call.
    fn delay(&self, _timeout: Duration) -> Duration {
        Duration::ZERO
    }
}
