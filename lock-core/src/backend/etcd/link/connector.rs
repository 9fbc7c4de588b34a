//! What the supervisor needs to know of etcd: how to dial, and how to see that a connection is lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::dial::{Session, check, dial, linearizable_read, status};
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

/// The pause between two linearizable reads.
const BETWEEN_READS: Duration = Duration::from_secs(1);

/// Half of the longest time that such a read may take. Long enough for a disk that is slow, and for the election of a leader.
const HALF_TIMEOUT: Duration = Duration::from_secs(1);

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
        let Session { connection, driver, watches } = session;
        let watching = async {
            match watches {
                Some(driver) => (&mut driver.0).await,
                None => std::future::pending().await,
            }
        };
        let why = tokio::select! {
            _ = &mut driver.0 => "the server closed the connection",
            _ = watching => "the server closed the connection",
            why = self.beats(connection, pauses) => why,
            why = stops_answering(connection) => why,
        };
        Failure::new(LockErrorKind::Unavailable, why)
    }
}

impl Members {
    /// Asks the member for its state again and again. Returns why it must be left.
    async fn beats(&self, connection: &Connection, pauses: &mut Pauses) -> &'static str {
        let mut missed = 0;
        loop {
            sleep(HEARTBEAT).await;
            let sent = Clock::Suspend.now();
            let answer = timeout(HEARTBEAT, status(connection)).await;
            if let Ok(Ok(_)) = answer {
                let round_trip = Clock::Suspend.now().since(sent);
                self.listeners.node_answered(&NodeAnswer::new(connection.member(), round_trip));
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
                return why;
            }
        }
    }
}

/// Returns once the member answers no linearizable read any more, with the reason.
async fn stops_answering(connection: &Connection) -> &'static str {
    loop {
        sleep(BETWEEN_READS).await;
        let mut answer = std::pin::pin!(linearizable_read(connection));
        // In two halves: the first alone may be over because this process stood still.
        if timeout(HALF_TIMEOUT, answer.as_mut()).await.is_err()
            && timeout(HALF_TIMEOUT, answer).await.is_err()
        {
            break;
        }
    }
    "the member answers for itself, and not for the cluster; does its disk hang, or is it cut off?"
}
