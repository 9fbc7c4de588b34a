//! What the supervisor needs to know of etcd: how to dial, and how to see that a connection is lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::dial::{Session, check, dial, status};
use super::members::Members;
use crate::backend::NodeAnswer;
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::remote::Connector;
use crate::backoff::Pauses;
use crate::clock::Clock;
use crate::error::LockErrorKind;

/// The pause between two heartbeats, and the longest time for the answer to one.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// How many heartbeats in a row may go wrong before the next member is tried.
const MISSED: u32 = 2;

impl Connector for Members {
    type Connection = Connection;
    type Session = Session;
    type Reaction = Reaction;
    /// Whether there was a connection before.
    type Legacy = bool;

    const PAUSES: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_millis(400));

    fn address(&self) -> impl fmt::Display {
        &self.config
    }

    fn connection(session: &Session) -> &Arc<Connection> {
        &session.connection
    }

    fn is_usable(connection: &Connection) -> bool {
        connection.is_open()
    }

    async fn dial(&self) -> Result<Session, Failure> {
        dial(self).await
    }

    async fn watch(&self, session: &mut Session, legacy: &mut bool, pauses: &mut Pauses) -> Failure {
        if std::mem::replace(legacy, true) {
            // The watches of the connection before have ended with it.
            self.listeners.reconnected();
        }
        let lost = |why: &'static str| Failure::new(LockErrorKind::Unavailable, why);
        let mut missed = 0;
        loop {
            tokio::select! {
                _ = &mut session.driver.0 => return lost("the server closed the connection"),
                () = sleep(HEARTBEAT) => {}
            }
            let sent = Clock::Suspend.now();
            let answer = timeout(HEARTBEAT, status(&session.connection)).await;
            if let Ok(Ok(_)) = answer {
                let round_trip = Clock::Suspend.now().since(sent);
                self.listeners.node_answered(&NodeAnswer::new(session.connection.member(), round_trip));
            }
            let why = match answer {
                Ok(Ok(status)) => match check(&status) {
                    Ok(()) => {
                        // Only after a heartbeat: a server that accepts every connection and closes it would be dialled
                        // without a pause.
                        pauses.reset();
                        missed = 0;
                        continue;
                    }
                    Err(_) => "the member has no leader",
                },
                // A refusal shows that the server is alive; a broken connection ends the driver.
                Ok(Err(_)) => continue,
                Err(_) => "the server stopped answering",
            };
            missed += 1;
            if missed >= MISSED {
                return lost(why);
            }
        }
    }
}
