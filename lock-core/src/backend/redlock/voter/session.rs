//! A registered connection to a voter: its state, and the registration of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Value};

use super::boot::{Boot, Registration, read, transaction};
use super::probe;
use super::scripts::MARKER;
use super::state::{VoterState, quarantine};
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, field, text};
use crate::clock::Clock;
use crate::error::LockErrorKind;
use crate::sync::Mutex;

/// The state of one connection to a voter.
#[derive(Debug)]
pub(super) struct VoterSession {
    voter: Arc<VoterState>,
    registration: Mutex<Arc<Registration>>,
    /// The number of keys that the server had evicted at the last check.
    evicted: AtomicU64,
}

impl VoterSession {
    /// Registers the server of a new connection. `info` is its answer to `INFO`.
    pub(super) async fn register(
        voter: &Arc<VoterState>,
        info: &str,
        connection: &MultiplexedConnection,
    ) -> Result<Self, Failure> {
        probe::examine(info)?;
        let commands = transaction(voter.max_millis(), false);
        // The commands use the new connection itself, because the marker must come from the server at the other end of
        // this connection.
        let answers = connection.clone().send_packed_commands(&commands, 0, commands.len()).await;
        let registration = settle(voter, &answers.map_err(|error| Failure::of_error(&error))?)?;
        voter.compare_once();
        // The count of evicted keys is older than the bootstrap. If keys were evicted in between, the first heartbeat
        // registers the server again, which does no harm.
        let evicted = AtomicU64::new(evicted(info).unwrap_or(0));
        Ok(Self { voter: Arc::clone(voter), registration: Mutex::new(Arc::new(registration)), evicted })
    }

    pub(super) fn registration(&self) -> Arc<Registration> {
        Arc::clone(&self.registration.lock())
    }

    /// Registers the server again, for example because it has forgotten the scripts or its marker.
    pub(super) async fn register_again(&self, live: &Connection<Self>) -> Result<(), Failure> {
        let answers = live.send_all(&transaction(self.voter.max_millis(), false)).await?;
        let registration = settle(&self.voter, &answers)?;
        *self.registration.lock() = Arc::new(registration);
        Ok(())
    }

    /// Checks with every heartbeat whether the server has evicted keys. Locks may be among the evicted keys, so a
    /// bootstrap then starts a new quarantine for all clients.
    pub(super) async fn look(&self, live: &Connection<Self>) {
        self.voter.compare_once();
        // The state is reported with every heartbeat, because no answer announces that a quarantine is over or that a
        // clock is trusted again.
        self.voter.report(Clock::Suspend.now());
        let mut command = Cmd::new();
        command.arg("INFO").arg("stats");
        let answer = live.send(&command).await;
        let now = answer.ok().and_then(|answer| evicted(text(&answer).ok()?));
        // Any difference counts, even a smaller number: `CONFIG RESETSTAT` starts a new count, and keys may have been
        // evicted since then.
        let Some(now) = now.filter(|now| *now != self.evicted.load(Ordering::Relaxed)) else { return };
        // The number is stored only after the bootstrap: if the bootstrap fails, the next heartbeat must detect the
        // difference again.
        if self.register_again(live).await.is_ok() {
            self.evicted.store(now, Ordering::Relaxed);
        }
    }

    /// Returns the voter, which receives the readings of the server's clock.
    pub(super) fn voter(&self) -> &VoterState {
        &self.voter
    }
}

fn evicted(info: &str) -> Option<u64> {
    field(info, "evicted_keys")?.parse().ok()
}

/// Reads the answers to a bootstrap, logs a new quarantine, and refuses a client whose `max_ttl` differs from the value
/// of the other clients.
fn settle(voter: &VoterState, answers: &[Value]) -> Result<Registration, Failure> {
    let (boot, registration) = read(answers)?;
    // The quarantine counts from the arrival of the answer, so it never ends earlier in this client than on the server.
    voter.quarantined(Clock::Suspend.now(), boot.left);
    tell(voter, &boot);
    if !voter.registers(registration.run) {
        return Err(twice());
    }
    if boot.max_ttl == voter.max_ttl() {
        return Ok(registration);
    }
    let (theirs, ours) = (boot.max_ttl, voter.max_ttl());
    // The text advises to change the marker, not to delete it: a voter without a marker counts as a voter that has lost
    // its data.
    let text = format!(
        "the clients of this voter agreed on max_ttl={theirs:?} and this one says {ours:?}: all must say the same. To \
         change it, stop all of them, wait {:?}, run `HSET {MARKER} max {}` on every voter, and start all of them with \
         max_ttl={ours:?}; the voters then vote at once",
        quarantine(theirs),
        voter.max_millis(),
    );
    Err(Failure::new(LockErrorKind::InvalidRequest, text))
}

/// Returns the error for a server that is named twice: if one server had two votes, a majority would prove nothing.
pub(super) fn twice() -> Failure {
    let text = "this server is named twice among the voters: each must be a server of its own";
    Failure::new(LockErrorKind::InvalidRequest, text)
}

/// Logs why a quarantine began. `why` is 0 for every client except the one whose bootstrap wrote the marker, so only
/// one client logs this.
fn tell(voter: &VoterState, boot: &Boot) {
    let (server, left) = (voter.address(), boot.left);
    match boot.why {
        1 => tracing::warn!(
            server = %server, does_not_vote_for = ?left,
            "this voter has no marker: it is new, or it lost its data"
        ),
        2 => tracing::warn!(
            server = %server, does_not_vote_for = ?left,
            "this voter restarted or was replaced, and may have forgotten locks"
        ),
        3 => tracing::warn!(
            server = %server, does_not_vote_for = ?left,
            "this voter evicted keys, and locks may have been among them; set its maxmemory-policy to noeviction"
        ),
        5 => tracing::warn!(
            server = %server, does_not_vote_for = ?left,
            "the clock of this voter was set back to before its quarantine began, which begins anew"
        ),
        _ => {}
    }
}
