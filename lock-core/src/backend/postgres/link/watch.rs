//! Supervises an established connection.
//!
//! The supervisor sends an empty request twice a second. The connection is dropped after two missed answers, or after
//! six if the server answers other calls. From time to time, the supervisor [sweeps](super::sweep) the tables between
//! two of these requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::dial::{Goal, dial};
use super::session::Session;
use super::shared::Shared;
use crate::backend::NodeAnswer;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::remote::Connector;
use crate::backoff::Pauses;
use crate::clock::Clock;
use crate::error::LockErrorKind;

/// How often an empty request is sent. Two missed answers in a row end the connection. An answer may take as long as
/// any call may, because a server that waits for its disk is not lost.
pub(super) const HEARTBEAT: Duration = Duration::from_millis(500);
const MISSED: u32 = 2;
/// The number of missed answers that end the connection if the server still answers earlier calls. For example, several
/// calls may wait one after another for the row of one key, and delay all later calls. Dropping the connection helps,
/// because a new connection does not have those calls.
const MISSED_AT_WORK: u32 = 6;

/// The pauses before the next dial, after a connection became silent. A server may answer a dial and then hang in
/// commits. Such a server keeps a process for each connection, so only an answered commit resets the pauses.
const SILENCES: Pauses = Pauses::new(Duration::from_millis(250), Duration::from_secs(30));

/// The number of heartbeats between two checks whether a sweep is due. The server allows only one connection to sweep
/// at a time; see inspect.sql.
const BEATS_PER_SWEEP: u32 = 10;

impl Connector for Shared {
    type Connection = Connection;
    type Session = Session;
    type Reaction = Reaction;
    type Legacy = Former;

    /// Renewals may share a connection, because the server may have no free connection for their thread.
    const SHARES: bool = true;
    const PAUSES: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(250));

    fn address(&self) -> impl fmt::Display {
        self.address()
    }

    fn connection(session: &Session) -> &Arc<Connection> {
        &session.live
    }

    fn is_usable(connection: &Connection) -> bool {
        !connection.is_closed()
    }

    fn dials(&self) {
        self.listeners().dials();
    }

    fn dial_limits(&self) -> (Duration, Duration) {
        (self.config.dial_timeout, self.config.connect_timeout)
    }

    async fn dial(&self, limit: Duration) -> Result<Session, Failure> {
        let session = match dial(self, Goal::Tables, limit).await {
            // The server was a primary when the backend was created, so it may become one again.
            Err(failure) if failure.reaction == Reaction::Reconnect => return Err(failure.temporary()),
            dialled => dialled?,
        };
        let patience = self.config.timeout.max(HEARTBEAT);
        let examined = timeout(patience, self.abandoned.examine(&session.live)).await;
        examined.unwrap_or_else(|_| Err(Failure::silent())).map_err(Failure::before_any_request)?;
        Ok(session)
    }

    fn reconnected(&self, _session: &Session) {
        // While no connection existed, the server may have lost the queue, or may have sent grants that did not arrive.
        self.listeners().reconnected();
    }

    async fn watch(&self, session: &mut Session, former: &mut Former, pauses: &mut Pauses) -> Failure {
        let failure = self.keep(session, pauses).await;
        if failure.reaction == Reaction::Abandon {
            self.abandoned.note(&session.live);
            if session.live.has_committed() {
                former.silences.reset();
            }
            pauses.next_at_least(former.silences.next());
        }
        failure
    }
}

/// The history of the connections before this one.
#[derive(Debug)]
pub(crate) struct Former {
    silences: Pauses,
}

impl Default for Former {
    fn default() -> Self {
        Self { silences: SILENCES }
    }
}

impl Shared {
    /// Pings the server twice a second, until the connection must be dropped.
    async fn keep(&self, session: &mut Session, pauses: &mut Pauses) -> Failure {
        // The count starts at random, so that not all processes sweep at the same time.
        let mut beats = fastrand::u32(..BEATS_PER_SWEEP);
        let mut missed = 0;
        let mut swept_to = None;
        loop {
            let answered = |round_trip| {
                let node = self.address().to_string();
                self.listeners().node_answered(&NodeAnswer::new(&node, round_trip));
            };
            if let Err(failure) = beat(session, self.config.timeout, &mut missed, answered).await {
                return failure;
            }
            // The pauses are reset after a heartbeat, and not after the dial. Otherwise a server that accepts and then
            // closes every connection would be dialled without a pause.
            if missed == 0 {
                pauses.reset();
                beats = beats.wrapping_add(1);
                if swept_to.is_some() || beats.is_multiple_of(BEATS_PER_SWEEP) {
                    swept_to = self.sweep(&session.live, swept_to).await;
                }
            }
        }
    }
}

/// Pings the server after a pause, and calls `on_answer` with the response time. Returns the reason if the connection
/// must be dropped.
pub(super) async fn beat(
    session: &mut Session,
    patience: Duration,
    missed: &mut u32,
    on_answer: impl FnOnce(Duration),
) -> Result<(), Failure> {
    let lost = |why: &'static str| Err(Failure::new(LockErrorKind::Unavailable, why));
    tokio::select! {
        biased;
        Some(_) = session.driver.join_next() => return lost("the server closed the connection"),
        () = session.live.poisoned.notified() => return lost("the server takes no writes any more"),
        // After a missed answer no pause is needed, because its time-out served as the pause.
        () = sleep(if *missed == 0 { HEARTBEAT } else { Duration::ZERO }) => {}
    }
    let (answered, sent) = (session.live.answered(), Clock::Suspend.now());
    match timeout(patience.max(HEARTBEAT), session.live.client.check_connection()).await {
        Ok(Ok(())) => {
            *missed = 0;
            on_answer(Clock::Suspend.now().since(sent));
        }
        Ok(Err(error)) => return Err(Failure::from_driver(&error)),
        Err(_) => {
            *missed += 1;
            let at_work = session.live.answered() != answered;
            if *missed >= if at_work { MISSED_AT_WORK } else { MISSED } {
                return Err(Failure::silent());
            }
        }
    }
    Ok(())
}
