//! Parses and delivers the messages of a store to the process of an owner. Messages are hints and may be lost. So a
//! waiter also sends a request from time to time, and a holder renews its lease.

use super::listeners::Listeners;
use crate::error::LossReason;
use crate::owner::Owner;

/// A message. The stores on a network write it as `granted <token> <waiters>`, `contended <key>`, `opened <key>` or
/// `forced <token>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    #[cfg(any(feature = "postgres", feature = "redis"))]
    Granted(Owner, usize),
    Contended(&'a str),
    Opened(&'a str),
    Forced(Owner),
}

impl<'a> Message<'a> {
    /// Parses a message to `process`. Returns `None` for a text of another form.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn parse(process: u128, text: &'a str) -> Option<Self> {
        // A process accepts only messages about its own owners.
        let own = |token: &str| Owner::from_token(token).filter(|owner| owner.process() == process);
        let (what, about) = text.split_once(' ')?;
        Some(match what {
            "granted" => {
                let (token, waiters) = about.split_once(' ')?;
                Self::Granted(own(token)?, waiters.parse().ok()?)
            }
            "contended" => Self::Contended(about),
            "opened" => Self::Opened(about),
            "forced" => Self::Forced(own(about)?),
            _ => return None,
        })
    }

    /// Reports the message only to the listeners of `process`, because all managers that share the backend also share
    /// its connections.
    pub(crate) fn deliver(self, listeners: &Listeners, process: u128) {
        for listener in listeners.of_process(process) {
            match self {
                #[cfg(any(feature = "postgres", feature = "redis"))]
                Self::Granted(owner, waiters) => listener.granted(owner, waiters),
                Self::Contended(key) => listener.contended(key),
                Self::Opened(key) => listener.opened(key),
                Self::Forced(owner) => listener.lost(owner, LossReason::Forced),
            }
        }
    }
}
