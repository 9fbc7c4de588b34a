//! Starts the task that drives an open connection and delivers its notifications.

use std::future::pending;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::AsyncMessage;

use super::connection::Connection;
use crate::backend::postgres::opener::{OpenConnection, next_message};
use crate::backend::postgres::sql::CHANNEL;
use crate::backend::remote::{Listeners, Message};

/// A connection and the task that drives it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) live: Arc<Connection>,
    pub(super) driver: Driver,
}

/// The task that drives a connection. `None` if a pool of the application drives the connection. Dropping this value
/// aborts the task, so that an abandoned dial closes its socket.
#[derive(Debug)]
pub(super) struct Driver(Option<JoinHandle<()>>);

impl Session {
    /// Spawns the task that drives a connection and delivers its notifications.
    pub(super) fn start(opened: OpenConnection, listeners: Arc<Listeners>) -> Self {
        let live = Arc::new(Connection::new(opened.client));
        let drive = |mut messages| {
            tokio::spawn(async move {
                while let Some(Ok(message)) = next_message(&mut messages).await {
                    if let AsyncMessage::Notification(sent) = message {
                        deliver(&listeners, sent.channel(), sent.payload());
                    }
                }
            })
        };
        Self { live, driver: Driver(opened.messages.map(drive)) }
    }

    /// Waits for the end of the connection.
    pub(crate) async fn ended(&mut self) {
        self.driver.ended().await;
    }

    /// Returns whether the store drives the connection. If so, the store receives notifications over it, and no other
    /// client uses the session.
    pub(super) fn is_driven_here(&self) -> bool {
        self.driver.0.is_some()
    }
}

impl Driver {
    pub(super) async fn ended(&mut self) {
        match &mut self.0 {
            Some(task) => drop(task.await),
            None => pending().await,
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
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
