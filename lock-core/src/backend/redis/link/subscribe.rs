//! Subscribes to the messages that a server pushes over one connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::Connection;
use super::messages;
use super::session_state::SessionState;
use crate::backend::redis::error::Failure;
use crate::backend::redis::keyspace::CHANNEL;
use crate::backend::redis::keyspace::Keyspace;
use crate::backend::redis::slot;
use crate::backend::remote::Listeners;
use crate::key::Key;
use ::redis::Cmd;

impl<S: SessionState> Connection<S> {
    /// Subscribes to the channels of this process's holders, once and in the background. Called with every grant and
    /// renewal over this connection. If the user may not subscribe, only the next renewal notifies a holder of a forced
    /// release.
    pub(crate) fn subscribe_holders(self: &Arc<Self>, listeners: &Arc<Listeners>) {
        let (subscribed, version) = (&self.subscriptions.holders, listeners.version());
        // In the common case this function only reads, because every grant calls it.
        if subscribed.load(Ordering::Acquire) >= version {
            return;
        }
        // Among concurrent callers, exactly one sees the old version and subscribes.
        if subscribed.fetch_max(version, Ordering::AcqRel) < version {
            let (live, listeners) = (Arc::clone(self), Arc::clone(listeners));
            tokio::spawn(async move {
                let _one = live.subscriptions.alone().await;
                let channels = messages::held_channels(&listeners);
                if let Err(error) = live.multiplexed().subscribe(channels).await {
                    tracing::debug!(%error, "holders are not told when their lock is taken by force");
                }
            });
        }
    }

    /// Subscribes to the channels of this process's waiters, unless the connection is already subscribed. Called before
    /// the first command whose result the server may push. Not called when the connection is made, because most
    /// connections never have a waiter.
    pub(crate) async fn subscribe_waiters(&self, listeners: &Listeners, key: &Key) -> Result<(), Failure> {
        let slot = (self.scripts.keyspace() == Keyspace::Slots).then(|| slot::of_key(key.as_str()));
        if self.subscriptions.version_of(slot) >= listeners.version() {
            return Ok(());
        }
        // Lets one caller subscribe at a time. The other callers continue only after the server has confirmed the
        // subscription. If this caller is dropped here, the next caller subscribes.
        let _one = self.subscriptions.alone().await;
        let version = listeners.version();
        if self.subscriptions.version_of(slot) >= version {
            return Ok(());
        }
        let (name, beginning) = match slot {
            Some(slot) => ("SSUBSCRIBE", slot::channel(slot)),
            None => ("SUBSCRIBE", CHANNEL.to_owned()),
        };
        // The channels are read after the version. So a listener that is added in between has its channel here, or the
        // next caller subscribes again. Each channel needs a separate command: the driver mistakes the second
        // confirmation of a command for the answer to the next command.
        for channel in messages::channels(listeners, &beginning) {
            let mut command = Cmd::new();
            command.arg(name).arg(channel);
            self.send(&command).await.map_err(Failure::before_any_request)?;
        }
        self.subscriptions.covers(slot, version);
        Ok(())
    }
}
