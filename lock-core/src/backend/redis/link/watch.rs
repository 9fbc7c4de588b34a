//! The supervision of an established connection.
//!
//! The server is asked for its time twice a second, which also keeps the estimate of its clock current. The connection
//! is dropped after two missed answers.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::redis::Cmd;
use tokio::time::{sleep, timeout};

use super::clock::server_time;
use super::connection::Connection;
use super::dial::{Session, dial};
use super::role::Role;
use super::sentinel;
use super::session_state::SessionState;
use super::shared::Shared;
use crate::backend::NodeAnswer;
use crate::backend::redis::config::Address;
use crate::backend::redis::config::Endpoint;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::remote::Connector;
use crate::backoff::Pauses;
use crate::clock::{self, Clock};
use crate::error::LockErrorKind;

/// How often the server is asked for its time. Two missed answers end the connection, so a server that hangs is
/// noticed within 1.5 s.
const HEARTBEAT: Duration = Duration::from_millis(500);
const MISSED: u32 = 2;

/// Whether a lost connection had subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscribed {
    /// Whether it had subscriptions for waiters. They are notified of the new connection: earlier messages may be lost,
    /// and a waiter that asks again subscribes again.
    waiters: bool,
    /// Whether it had subscriptions for holders. Holders do not ask again, so the new connection subscribes for them.
    holders: bool,
}

impl<R: Role> Connector for Shared<R> {
    type Connection = Connection<R::Session>;
    type Session = Session<R>;
    type Reaction = Reaction;
    type Legacy = Subscribed;

    const PAUSES: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(250));

    fn address(&self) -> impl fmt::Display {
        self.address()
    }

    fn connection(session: &Session<R>) -> &Arc<Connection<R::Session>> {
        &session.live
    }

    fn is_usable(connection: &Connection<R::Session>) -> bool {
        !connection.is_out_of_step()
    }

    async fn dial(&self) -> Result<Session<R>, Failure> {
        match dial(self).await {
            // The server was a primary when the backend was made, so it may be one again.
            Err(failure) if failure.reaction == Reaction::Reconnect => Err(failure.temporary()),
            // The sentinels knew its name then. One that was just restarted may not yet.
            Err(failure) if failure.text().starts_with(sentinel::UNKNOWN) => {
                Err(Failure::new(LockErrorKind::Unavailable, failure.text().to_owned()).temporary())
            }
            dialled => dialled,
        }
    }

    async fn watch(&self, session: &mut Session<R>, legacy: &mut Subscribed, pauses: &mut Pauses) -> Failure {
        if legacy.waiters {
            self.listeners().reconnected();
        }
        if legacy.holders {
            session.live.subscribe_holders(self.shared_listeners());
        }
        let failure = watch_over(self, session, pauses).await;
        // Kept across several losses: a connection may be lost before anybody has subscribed over it.
        legacy.waiters |= session.live.subscriptions.has_waiters();
        legacy.holders |= session.live.subscriptions.has_holders();
        failure
    }
}

/// Returns when the server is no longer the primary. Never returns without sentinels.
async fn replaced<R: Role>(server: &Shared<R>, place: Option<&Endpoint>) {
    match (server.address(), place) {
        (Address::Sentinel(sentinels), Some(place)) => {
            sentinel::replaced(&server.config, server.tls(), sentinels, place).await;
        }
        _ => std::future::pending().await,
    }
}

/// Returns when the connection is lost, with the reason.
async fn watch_over<R: Role>(server: &Shared<R>, session: &mut Session<R>, pauses: &mut Pauses) -> Failure {
    let lost = |why: &'static str| Failure::new(LockErrorKind::Unavailable, why);
    let Session { live, driver, place } = session;
    let mut replaced = pin!(replaced(server, place.as_ref()));
    // An answer may be queued behind a command that waits for copies.
    let bound = HEARTBEAT + live.session.delay(server.config.timeout);
    let (mut missed, mut beats) = (0, 0_u32);
    loop {
        tokio::select! {
            // `biased` keeps the simulation deterministic.
            biased;
            _ = &mut driver.0 => return lost("the server closed the connection"),
            () = live.poisoned.told.notified() => return lost(match live.is_out_of_step() {
                true => "the node has given a slot away",
                false => "the server has become a replica",
            }),
            () = &mut replaced => return lost("the sentinels name another primary"),
            // After a missed answer no pause is needed: its timeout was the pause.
            () = sleep(if missed == 0 { HEARTBEAT } else { Duration::ZERO }) => {}
        }
        let mut command = Cmd::new();
        command.arg("TIME");
        let sent = Clock::Suspend.now();
        match timeout(bound, live.send(&command)).await {
            Ok(Ok(answer)) => {
                // Only after a heartbeat, and not after the dial: a server that accepts every connection and closes it
                // would be dialled without a pause.
                pauses.reset();
                if let Ok(now) = server_time(&answer) {
                    let received = Clock::Suspend.now();
                    live.learn(now, sent, received);
                    report(server, place.as_ref(), now, received.since(sent));
                }
                // Work of the role that is not answered in time counts as a missed answer.
                let beat = server.role.heartbeat(live, server, beats);
                missed = u32::from(timeout(bound, beat).await.is_err());
                beats = beats.wrapping_add(1);
            }
            // An error reply shows that the server is alive, and a broken connection ends the driver.
            Ok(Err(_)) => missed = 0,
            Err(_) if missed + 1 < MISSED => missed += 1,
            Err(_) => return lost("the server stopped answering"),
        }
    }
}

/// Reports how long the server took to answer, and what its clock showed.
fn report<R: Role>(server: &Shared<R>, place: Option<&Endpoint>, now: i64, round_trip: Duration) {
    let node = match place {
        Some((host, port)) => format!("{host}:{port}"),
        None => server.address().to_string(),
    };
    server.role.answered(server, &NodeAnswer::new(&node, round_trip).at(now, clock::wall()));
}
