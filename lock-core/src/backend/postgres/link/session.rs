//! Starts the task that drives an open connection and delivers its notifications.

use std::future::pending;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_postgres::AsyncMessage;

use super::connection::Connection;
use crate::backend::postgres::opener::{OpenConnection, next_message};
use crate::backend::postgres::sql::CHANNEL;
use crate::backend::remote::{Listeners, Message};

/// A connection and the task that drives it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) live: Arc<Connection>,
    /// The task that drives the connection. The set is empty if a pool of the application drives the connection.
    /// Dropping the set aborts the task, so that an abandoned dial closes its socket.
    pub(super) driver: JoinSet<()>,
}

impl Session {
    /// Spawns the task that drives a connection and delivers its notifications.
    pub(super) fn start(opened: OpenConnection, listeners: Arc<Listeners>) -> Self {
        let live = Arc::new(Connection::new(opened.client));
        let mut driver = JoinSet::new();
        if let Some(mut messages) = opened.messages {
            driver.spawn(async move {
                while let Some(Ok(message)) = next_message(&mut messages).await {
                    if let AsyncMessage::Notification(sent) = message {
                        deliver(&listeners, sent.channel(), sent.payload());
                    }
                }
            });
        }
        Self { live, driver }
    }

    /// Waits for the end of the connection.
    pub(crate) async fn ended(&mut self) {
        if self.driver.join_next().await.is_none() {
            pending().await
        }
    }

    /// Returns whether the store drives the connection. If so, the store receives notifications over it, and no other
    /// client uses the session.
    pub(super) fn is_driven_here(&self) -> bool {
        !self.driver.is_empty()
    }
}

/// Delivers a notification. Ignores unknown notifications, because any user of the database may send one.
fn deliver(listeners: &Listeners, channel: &str, payload: &str) {
    let process = channel.strip_prefix(CHANNEL).and_then(|process| u128::from_str_radix(process, 16).ok());
    let message = process.and_then(|process| Some((process, Message::parse(process, payload)?)));
    match message {
        Some((process, message)) => message.deliver(listeners, process),
        None => tracing::debug!("an unknown notification was ignored"),
    }
}
