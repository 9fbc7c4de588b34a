//! Supervises an established connection.
//!
//! The supervisor requests the server's time twice a second, and also updates the estimate of the server's clock with
//! the answers. The supervisor drops the connection when the server stops answering.

use std::fmt;
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

/// The pause between two heartbeats: requests for the server's time. If no answer of any kind arrives for twice this
/// time, the supervisor drops the connection. So a hanging server is noticed within 1.5 s. If the server still answers
/// earlier requests, it is alive, and dropping its connection would make all pending requests ambiguous.
const HEARTBEAT: Duration = Duration::from_millis(500);

impl<R: Role> Connector for Shared<R> {
    type Connection = Connection<R::Session>;
    type Session = Session<R>;
    type Reaction = Reaction;
    type Legacy = ();

    const PAUSES: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(250));
    const SHARES: bool = true;

    fn address(&self) -> impl fmt::Display {
        self.address()
    }

    fn connection(session: &Session<R>) -> &Arc<Connection<R::Session>> {
        &session.live
    }

    fn is_usable(connection: &Connection<R::Session>) -> bool {
        !connection.is_out_of_step()
    }

    fn dials(&self) {
        self.listeners().dials();
    }

    fn dial_limits(&self) -> (Duration, Duration) {
        (self.config.dial_timeout, self.config.connect_timeout)
    }

    async fn dial(&self, limit: Duration) -> Result<Session<R>, Failure> {
        match dial(self, limit).await {
            // The address had a primary when the backend was created, so it may have one again.
            Err(failure) if failure.reaction == Reaction::Reconnect => {
                let failure = Failure::new(LockErrorKind::Unavailable, failure.text().to_owned());
                Err(failure.temporary().with_reaction(Reaction::Reconnect))
            }
            dialled => dialled,
        }
    }

    fn reconnected(&self, session: &Session<R>) {
        // Each waiter sends a heartbeat for its queue entry, which also subscribes again.
        self.listeners().reconnected();
        // Holders have no queue entry, so the supervisor subscribes for them.
        session.live.subscribe_holders(self.shared_listeners());
    }

    async fn watch(&self, session: &mut Session<R>, _legacy: &mut (), pauses: &mut Pauses) -> Failure {
        let Session { live, driver, place } = session;
        let why = tokio::select! {
            // `biased` makes the simulation deterministic.
            biased;
            _ = &mut driver.0 => "the server closed the connection",
            () = live.poisoned.told.notified() => match live.is_out_of_step() {
                true => "the node has given a slot away",
                false => "the server has become a replica",
            },
            () = replaced(self, place.as_ref()) => "the sentinels name another primary",
            () = beats(self, live, place.as_ref(), pauses) => "the server stopped answering",
        };
        Failure::new(LockErrorKind::Unavailable, why)
    }
}

/// Waits until the sentinels name another primary than the server at `place`. Without sentinels, never returns.
async fn replaced<R: Role>(server: &Shared<R>, place: Option<&Endpoint>) {
    match (server.address(), place) {
        (Address::Sentinel(sentinels), Some(place)) => {
            sentinel::replaced(&server.config, server.tls(), sentinels, place).await;
        }
        _ => std::future::pending().await,
    }
}

/// Requests the server's time repeatedly. Returns when the server stops answering.
async fn beats<R: Role>(
    server: &Shared<R>,
    live: &Connection<R::Session>,
    place: Option<&Endpoint>,
    pauses: &mut Pauses,
) {
    // An answer may have to wait for an earlier command that waits for replicas.
    let bound = HEARTBEAT + live.session.delay(server.config.timeout);
    let (mut is_late, mut count) = (false, 0_u32);
    let mut command = Cmd::new();
    command.arg("TIME");
    loop {
        // If the periodic work of the role timed out, its time limit has already served as the pause.
        let (pause, patience) = if is_late { (Duration::ZERO, bound) } else { (HEARTBEAT, bound * 2) };
        sleep(pause).await;
        let sent = Clock::Suspend.now();
        let Some(answer) = live.answers.patiently(patience, live.send(&command)).await else { return };
        // An error reply also shows that the server is alive. If the connection breaks, the driver ends.
        is_late = false;
        let Ok(answer) = answer else { continue };
        // Resets the pauses after a heartbeat, and not after the dial. Otherwise a server that accepts every connection
        // and then closes it would be dialled without a pause.
        pauses.reset();
        if let Ok(now) = server_time(&answer) {
            let received = Clock::Suspend.now();
            live.learn(now, sent, received);
            report(server, place, now, received.since(sent));
        }
        is_late = timeout(bound, server.role.heartbeat(live, server, count)).await.is_err();
        count = count.wrapping_add(1);
    }
}

/// Reports the response time of the server, and the time of its clock.
fn report<R: Role>(server: &Shared<R>, place: Option<&Endpoint>, now: i64, round_trip: Duration) {
    let node = match place {
        Some((host, port)) => format!("{host}:{port}"),
        None => server.address().to_string(),
    };
    server.role.answered(server, &NodeAnswer::new(&node, round_trip).at(now, clock::wall()));
}
