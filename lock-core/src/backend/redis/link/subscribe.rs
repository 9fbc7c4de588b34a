//! Subscriptions: the messages that a server pushes over one connection.

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
    /// renewal over this connection. If the user may not subscribe, a holder learns of a forced release at its next
    /// renewal.
    pub(crate) fn subscribe_holders(self: &Arc<Self>, listeners: &Arc<Listeners>) {
        let (subscribed, version) = (&self.subscriptions.holders, listeners.version());
        // Every grant calls this, so the common case only reads.
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

    /// Subscribes to the channels of this process's waiters, if it has not done so yet. Called before the first command
    /// whose outcome the server may push. The function is not called when the connection is made, because most
    /// connections never have a waiter.
    pub(crate) async fn subscribe_waiters(&self, listeners: &Listeners, key: &Key) -> Result<(), Failure> {
        if self.scripts.keyspace() == Keyspace::Slots {
            return self.subscribe_slot(listeners, slot::of_key(key.as_str())).await;
        }
        let subscribed = &self.subscriptions.waiters;
        if subscribed.load(Ordering::Acquire) >= listeners.version() {
            return Ok(());
        }
        // One caller at a time, so that no caller continues before the server has confirmed the first subscription.
        // Dropping a caller here changes nothing.
        let _one = self.subscriptions.alone().await;
        let version = listeners.version();
        if subscribed.load(Ordering::Acquire) >= version {
            return Ok(());
        }
        let answer = self.multiplexed().subscribe(messages::channels(listeners, CHANNEL)).await;
        answer.map_err(|error| self.noted(Failure::of_error(&error)).before_any_request())?;
        // This version was read before the channels. If a listener was added since then, the next caller subscribes
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
        // Read after the version: if a listener is added in between, it is covered, or the next caller subscribes
        // again.
        for channel in messages::channels(listeners, &slot::channel(slot)) {
            let mut command = Cmd::new();
            command.arg("SSUBSCRIBE").arg(channel);
            self.send(&command).await.map_err(Failure::before_any_request)?;
        }
        self.subscriptions.covers(slot, version);
        Ok(())
    }
}
