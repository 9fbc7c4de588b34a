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
                // Each channel needs its own command: see `subscribe_slot`.
                for channel in messages::held_channels(&listeners) {
                    if let Err(error) = live.multiplexed().subscribe(channel).await {
                        tracing::debug!(%error, "holders are not told when their lock is taken by force");
                        return;
                    }
                }
            });
        }
    }

    /// Subscribes to the channels of this process's waiters, unless the connection is already subscribed. Called before
    /// the first command whose result the server may push. Not called when the connection is made, because most
    /// connections never have a waiter.
    pub(crate) async fn subscribe_waiters(&self, listeners: &Listeners, key: &Key) -> Result<(), Failure> {
        if self.scripts.keyspace() == Keyspace::Slots {
            return self.subscribe_slot(listeners, slot::of_key(key.as_str())).await;
        }
        let subscribed = &self.subscriptions.waiters;
        if subscribed.load(Ordering::Acquire) >= listeners.version() {
            return Ok(());
        }
        // Lets one caller subscribe at a time. The other callers continue only after the server has confirmed the
        // subscription. If this caller is dropped here, the next caller subscribes.
        let _one = self.subscriptions.alone().await;
        let version = listeners.version();
        if subscribed.load(Ordering::Acquire) >= version {
            return Ok(());
        }
        let answer = self.multiplexed().subscribe(messages::channels(listeners, CHANNEL)).await;
        answer.map_err(|error| self.noted(Failure::of_error(&error)).before_any_request())?;
        // The version was read before the channels. So if a listener was added since then, the next caller subscribes
        // again.
        subscribed.store(version, Ordering::Release);
        Ok(())
    }

    /// Subscribes to the channels of one slot in the same way. Each channel needs a separate command: the driver
    /// mistakes the second confirmation of a command for the answer to the next command.
    async fn subscribe_slot(&self, listeners: &Listeners, slot: u16) -> Result<(), Failure> {
        if self.subscriptions.version_of(slot) >= listeners.version() {
            return Ok(());
        }
        let _one = self.subscriptions.alone().await;
        let version = listeners.version();
        if self.subscriptions.version_of(slot) >= version {
            return Ok(());
        }
        // The channels are read after the version. So a listener that is added in between has its channel here, or the
        // next caller subscribes again.
        for channel in messages::channels(listeners, &slot::channel(slot)) {
            let mut command = Cmd::new();
            command.arg("SSUBSCRIBE").arg(channel);
            self.send(&command).await.map_err(Failure::before_any_request)?;
        }
        self.subscriptions.covers(slot, version);
        Ok(())
    }
}
