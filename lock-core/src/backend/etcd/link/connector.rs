//! Implements [`Connector`] for etcd: dialing, and the detection of a lost connection.
//!
//! A member that answers late is not dead. So a member that answers any call is not replaced because of a late
//! heartbeat. A replaced connection stays open for the calls in flight, because closing it would make the result of
//! each of them unknown.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::connection::Connection;
use super::dial::{Session, check, dial, linearizable_read, status};
use super::members::Members;
use crate::backend::NodeAnswer;
use crate::backend::etcd::error::{Failure, Reaction};
use crate::backend::remote::Connector;
use crate::backoff::Pauses;
use crate::clock::Clock;
use crate::error::LockErrorKind;

/// The pause between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// The longest time without any answer from a member while a heartbeat is in flight.
const SILENCE: Duration = Duration::from_millis(1_500);

/// The number of consecutive heartbeats without a leader after which the next member is tried.
const LEADERLESS: u32 = 2;

/// The pause between two linearizable reads.
const BETWEEN_READS: Duration = Duration::from_secs(1);

/// The longest time without an answer to a linearizable read or to a change. This time is long enough for a slow disk,
/// and for the election of a leader.
const UNCONFIRMED: Duration = Duration::from_secs(2);

impl Connector for Members {
    type Connection = Connection;
    type Session = Session;
    type Reaction = Reaction;
    /// The replaced connections. Each is closed after the time limit of a call, when none of its calls can be in flight.
    type Legacy = JoinSet<()>;

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

    fn dials(&self) {
        self.listeners.dials();
    }

    fn dial_limits(&self) -> (Duration, Duration) {
        (self.config.dial_timeout, self.config.connect_timeout)
    }

    async fn dial(&self, limit: Duration) -> Result<Session, Failure> {
        dial(self, limit).await
    }

    fn reconnected(&self, _session: &Session) {
        // The watches of the previous connection have ended together with that connection, so every waiter sends a
        // request.
        self.listeners.reconnected();
    }

    async fn watch(&self, session: &mut Session, left: &mut JoinSet<()>, pauses: &mut Pauses) -> Failure {
        while left.try_join_next().is_some() {}
        let connection = &session.connection;
        let lost = |why| Failure::new(LockErrorKind::Unavailable, why);
        let why = tokio::select! {
            _ = session.drivers.join_next() => return lost("the server closed the connection"),
            why = self.beats(connection, pauses) => why,
            why = stops_answering(connection) => why,
        };
        let (mut drivers, longest) = (std::mem::take(&mut session.drivers), self.config.timeout);
        left.spawn(async move {
            // No call takes longer than this. Watches do not end on their own, and are started again over the next
            // connection.
            let _ = tokio::time::timeout(longest, drivers.join_next()).await;
        });
        lost(why)
    }
}

impl Members {
    /// Sends heartbeats to the member until it must be replaced. Returns the reason.
    async fn beats(&self, connection: &Connection, pauses: &mut Pauses) -> &'static str {
        let mut leaderless = 0;
        loop {
            sleep(HEARTBEAT).await;
            let sent = Clock::Suspend.now();
            let Some(answer) = connection.answers.patiently(SILENCE, status(connection)).await else {
                return "the server stopped answering";
            };
            // Any refusal shows that the server is alive. A broken connection would end the driver.
            let status = match answer {
                Ok(status) => Some(status),
                // Later versions of etcd report the status only to users with the role root.
                Err(failure) if failure.reaction == Reaction::Forbidden => None,
                Err(_) => continue,
            };
            let round_trip = Clock::Suspend.now().since(sent);
            self.listeners.node_answered(&NodeAnswer::new(connection.member(), round_trip));
            if status.is_none_or(|status| check(&status).is_ok()) {
                // The pauses are reset only after a heartbeat. Otherwise a server that accepts every connection and
                // closes it would be dialled without a pause.
                pauses.reset();
                leaderless = 0;
                continue;
            }
            leaderless += 1;
            if leaderless >= LEADERLESS {
                return "the member has no leader";
            }
        }
    }
}

/// Completes when the member no longer answers requests that a majority must confirm. Returns the reason.
async fn stops_answering(connection: &Connection) -> &'static str {
    loop {
        sleep(BETWEEN_READS).await;
        if connection.confirmed.patiently(UNCONFIRMED, linearizable_read(connection)).await.is_none() {
            break;
        }
    }
    "the member answers for itself, and not for the cluster; does its disk hang, or is it cut off?"
}
