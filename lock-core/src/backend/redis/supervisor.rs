//! The supervisor: one connection, dialled again for ever, watched while it lives.
//!
//! The driver's own reconnecting connection gives up while it is idle and lets its callers hang past their deadline
//! meanwhile, and it never notices a server that stopped answering. This one does the few things a lock needs: dial
//! with a deadline, prove that the server can hold locks, load the scripts, learn the server's clock, ask for its
//! time twice a second, drop the connection after two missed answers, dial again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::redis::Cmd;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::config::Address;
use super::confirm::patience;
use super::connection::Connection;
use super::dial::{Session, dial};
use super::error::{Failure, Reaction};
use super::sentinel::{self, Place};
use super::server_clock::server_time;
use super::shared::Shared;
use crate::clock::Clock;
use crate::error::LockErrorKind;

/// How often the server is asked for its time. Two missed answers end the connection, so a server that hangs is
/// noticed within 1.5 s.
const HEARTBEAT: Duration = Duration::from_millis(500);
const MISSED: u32 = 2;
/// Every so many questions it is also asked whether it has thrown keys away: every five seconds.
const BEATS_PER_LOOK: u32 = 10;
/// The pause after a failed dial grows from the first to the second. The second is short, because a caller waits for
/// a connection no longer than its own deadline, half a second by default.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(250);

/// What the supervisor tells: the connection, or why there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) live: Option<Arc<Connection>>,
    pub(super) failure: Option<Failure>,
}

/// Starts the supervisor on the current runtime. It ends with that runtime, or when nobody watches any more.
pub(super) fn supervise(server: Arc<Shared>, first: Option<Session>) -> watch::Receiver<State> {
    let live = first.as_ref().map(|session| Arc::clone(&session.live));
    let (tell, told) = watch::channel(State { live, failure: None });
    tokio::spawn(async move {
        tokio::select! {
            // Not in an order of chance: a simulation is to be the same again.
            biased;
            () = keep_connected(&server, &tell, first) => {}
            () = tell.closed() => {}
        }
    });
    told
}

async fn keep_connected(server: &Shared, tell: &watch::Sender<State>, mut first: Option<Session>) {
    let mut pause = FIRST_PAUSE;
    // Whether somebody is told over this link. Then a new connection is news: what was told meanwhile is lost, and
    // whoever asks now subscribes anew.
    let mut heard = false;
    let mut attending = false;
    loop {
        let dialled = match first.take() {
            Some(session) => Ok(session),
            None => dial(server).await,
        };
        let failure = match dialled {
            Ok(mut session) => {
                tell.send_replace(State { live: Some(Arc::clone(&session.live)), failure: None });
                tracing::debug!(server = %server.address(), "connected to redis");
                if heard {
                    server.listeners().reconnected();
                }
                if attending {
                    session.live.subscribe_holders(server.shared_listeners());
                }
                let failure = watch_over(server, &mut session, &mut pause).await;
                heard |= session.live.subscriptions.has_waiters();
                attending |= session.live.subscriptions.has_holders();
                failure
            }
            // The server was a primary when the backend was made, so it may be one again.
            Err(failure) if failure.reaction == Reaction::Reconnect => failure.temporary(),
            Err(failure) => failure,
        };
        tracing::debug!(server = %server.address(), ?failure, "no connection to redis");
        tell.send_replace(State { live: None, failure: Some(failure) });
        // Jitter, so that the processes of a service do not all dial a restarted server in the same instant.
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Returns when the server is not the primary any more; never where nobody says who is.
async fn replaced(server: &Shared, place: Option<&Place>) {
    match (server.address(), place) {
        (Address::Sentinel(sentinels), Some(place)) => {
            sentinel::replaced(server, sentinels, place).await;
        }
        _ => std::future::pending().await,
    }
}

/// Returns when the connection is no good any more, with the reason.
async fn watch_over(server: &Shared, session: &mut Session, pause: &mut Duration) -> Failure {
    let lost = |why: &'static str| Failure::new(LockErrorKind::Unavailable, why);
    let Session { live, driver, place } = session;
    let mut replaced = pin!(replaced(server, place.as_ref()));
    // An answer may stand behind a confirmation.
    let bound =
        HEARTBEAT + live.confirmer.as_ref().map_or(Duration::ZERO, |_| patience(server.config.timeout));
    let (mut missed, mut beats) = (0, 0_u32);
    loop {
        tokio::select! {
            // Not in an order of chance: a simulation is to be the same again.
            biased;
            _ = &mut driver.0 => return lost("the server closed the connection"),
            () = live.poisoned.told.notified() => return lost(match live.is_out_of_step() {
                true => "the node has given a slot away",
                false => "the server has become a replica",
            }),
            () = &mut replaced => return lost("the sentinels name another primary"),
            // The wait for an answer that did not come was the pause.
            () = sleep(if missed == 0 { HEARTBEAT } else { Duration::ZERO }) => {}
        }
        let mut command = Cmd::new();
        command.arg("TIME");
        let sent = Clock::Suspend.now();
        match timeout(bound, live.send(&command)).await {
            Ok(Ok(answer)) => {
                // Only a connection that lasts may shorten the pause: else a server that closes every connection at
                // once would be dialled in a tight loop.
                *pause = FIRST_PAUSE;
                if let Ok(now) = server_time(&answer) {
                    live.learn(now, sent, Clock::Suspend.now());
                }
                let looked = if let Some(seat) = &live.seat {
                    timeout(HEARTBEAT, seat.look(live)).await.is_ok()
                } else if beats % BEATS_PER_LOOK == 0 {
                    timeout(bound, server.evictions.look(live, server)).await.is_ok()
                } else {
                    true
                };
                missed = u32::from(!looked);
                beats = beats.wrapping_add(1);
            }
            // An error reply is an answer too, and a connection that broke ends the driver.
            Ok(Err(_)) => missed = 0,
            Err(_) if missed + 1 < MISSED => missed += 1,
            Err(_) => return lost("the server stopped answering"),
        }
    }
}
