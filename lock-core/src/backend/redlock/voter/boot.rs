//! The bootstrap: the only way in which the gated scripts are loaded into a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, Value};

use super::probe;
use super::state::{QUARANTINE_FACTOR, QUARANTINE_MARGIN, VoterState, quarantine};
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, text};
use crate::backend::redis::scripts::constants::{Constant, Source};
use crate::clock::Clock;
use crate::error::LockErrorKind;
use crate::sync::Mutex;

/// The key of the marker; no lock may use this name.
pub(super) const MARKER: &str = "lock:voter";

static BOOT: Source = Source::new(include_str!("scripts/boot.lua"), CONSTANTS);
// The order matters. The gate refuses what free.lua does not grant, and only behind it comes the script of a single
// server. What stands in front of the gate must check the marker itself.
static ONE: Source = Source::new(
    concat!(
        include_str!("scripts/free.lua"),
        include_str!("../../redis/scripts/take.lua"),
        include_str!("scripts/gate.lua"),
        include_str!("../../redis/scripts/acquire.lua"),
        include_str!("../../redis/scripts/take.lua"),
        include_str!("../../redis/scripts/acquire_held.lua"),
        include_str!("../../redis/scripts/lib.lua"),
        include_str!("../../redis/scripts/acquire_taken.lua"),
    ),
    CONSTANTS,
);
static ALL: Source = Source::new(
    concat!(
        include_str!("scripts/gate.lua"),
        include_str!("../../redis/scripts/lib.lua"),
        include_str!("../../redis/scripts/acquire_all.lua"),
    ),
    CONSTANTS,
);

/// The length of a server's run id.
const RUN_ID_LEN: usize = 40;

/// The constants that only the scripts here use.
pub(crate) const CONSTANTS: &[Constant] = &[
    Constant::text("VOTER_MARKER", MARKER),
    Constant::number("RUN_ID_LEN", RUN_ID_LEN as u64),
    Constant::number("QUARANTINE_FACTOR", QUARANTINE_FACTOR),
    Constant::number("QUARANTINE_MARGIN", QUARANTINE_MARGIN),
];

/// Returns the text of the bootstrap as it is sent to a server.
pub(crate) fn boot_script() -> &'static str {
    BOOT.text()
}

/// The result of the last bootstrap over a connection, which every gated request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    /// The run id of the server.
    pub(super) run: [u8; RUN_ID_LEN],
    /// The contents of the marker in one text. A request carries it, so that the script detects the marker of another
    /// incarnation even where the script is cached: in another database of the server, behind a proxy that reconnects,
    /// or on a live server that was made a replica.
    pub(super) marker_digest: Arc<[u8]>,
    /// The end of the quarantine by the clock of the server, in us.
    pub(super) till: i64,
    /// The SHA-1 of the script for one key.
    pub(super) one: [u8; 40],
    /// The SHA-1 of the script for several keys.
    pub(super) all: [u8; 40],
}

/// The findings of a bootstrap: see `scripts/boot.lua`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Boot {
    max_ttl: Duration,
    why: i64,
    left: Duration,
}

/// Returns the commands of a bootstrap: `MULTI; EVAL boot; SCRIPT LOAD ..; EXEC`. They are one transaction, because a
/// restart between two commands would load the scripts into an incarnation that has no marker of its own.
pub(super) fn transaction(max_millis: u64, new_cluster: bool) -> Pipeline {
    let mut commands = Pipeline::with_capacity(5);
    commands.cmd("MULTI");
    commands.cmd("EVAL").arg(boot_script()).arg(1).arg(MARKER).arg(max_millis).arg(u8::from(new_cluster));
    // The only place that loads these scripts. Loaded anywhere else, they would run on a server without a marker of its
    // run.
    for source in [&ONE, &ALL] {
        commands.cmd("SCRIPT").arg("LOAD").arg(source.text());
    }
    commands.cmd("EXEC");
    commands
}

/// Reads the answers to [`transaction`].
pub(super) fn read(answers: &[Value]) -> Result<(Boot, Registration), Failure> {
    // The first error names the reason; the reply to `EXEC` only says that a command was refused.
    let refused = answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => Some(Failure::of_reply(error)),
        _ => None,
    });
    if let Some(failure) = refused {
        return Err(failure);
    }
    let last = answers.last().unwrap_or(&Value::Nil);
    match last {
        Value::Array(answers) => match answers.as_slice() {
            [boot, one, all] => {
                let (boot, incarnation) = booted(boot)?;
                let Incarnation { run, marker_digest, till } = incarnation;
                Ok((boot, Registration { run, marker_digest, till, one: name(one)?, all: name(all)? }))
            }
            _ => Err(Failure::unexpected(last)),
        },
        _ => Err(Failure::unexpected(last)),
    }
}

/// The server incarnation that wrote the marker.
struct Incarnation {
    run: [u8; 40],
    marker_digest: Arc<[u8]>,
    till: i64,
}

fn booted(answer: &Value) -> Result<(Boot, Incarnation), Failure> {
    match answer {
        Value::ServerError(error) => Err(Failure::of_reply(error)),
        Value::Array(parts) => match parts.as_slice() {
            [
                run,
                Value::Int(max),
                Value::Int(why),
                Value::Int(left),
                Value::Int(till),
                Value::BulkString(marker_digest),
            ] => {
                let number = |number: &i64| u64::try_from(*number).unwrap_or(0);
                let (max_ttl, left) =
                    (Duration::from_millis(number(max)), Duration::from_micros(number(left)));
                let incarnation = Incarnation {
                    run: name(run)?,
                    marker_digest: marker_digest.as_slice().into(),
                    till: *till,
                };
                Ok((Boot { max_ttl, why: *why, left }, incarnation))
            }
            _ => Err(Failure::unexpected(answer)),
        },
        _ => Err(Failure::unexpected(answer)),
    }
}

/// Reads a SHA-1 or a run id: both are 40 hexadecimal digits.
fn name(answer: &Value) -> Result<[u8; 40], Failure> {
    match answer {
        Value::BulkString(text) => text.as_slice().try_into().map_err(|_| Failure::unexpected(answer)),
        Value::ServerError(error) => Err(Failure::of_reply(error)),
        _ => Err(Failure::unexpected(answer)),
    }
}

/// The state of one connection to a voter.
#[derive(Debug)]
pub(super) struct VoterSession {
    voter: Arc<VoterState>,
    registration: Mutex<Registration>,
    /// The number of keys that the server had evicted at the last check.
    evicted: AtomicU64,
}

impl VoterSession {
    /// Registers the server behind a new connection. `info` is its answer to `INFO`.
    pub(super) async fn register(
        voter: &Arc<VoterState>,
        info: &str,
        connection: &MultiplexedConnection,
    ) -> Result<Self, Failure> {
        probe::examine(info)?;
        let commands = transaction(voter.max_millis(), false);
        // Over the connection that is about to be used: the marker must be that of the server at its other end.
        let answers = connection.clone().send_packed_commands(&commands, 0, commands.len()).await;
        let registration = settle(voter, &answers.map_err(|error| Failure::of(&error))?)?;
        voter.compare_once();
        // The count is older than the bootstrap. If keys were evicted in between, the first heartbeat registers once
        // more, which does no harm.
        let evicted = AtomicU64::new(evicted(info).unwrap_or(0));
        Ok(Self { voter: Arc::clone(voter), registration: Mutex::new(registration), evicted })
    }

    pub(super) fn registration(&self) -> Registration {
        self.registration.lock().clone()
    }

    /// Registers the server again, because it forgot the scripts or its marker.
    pub(super) async fn register_again(&self, live: &Connection<Self>) -> Result<(), Failure> {
        let answers = live.send_all(&transaction(self.voter.max_millis(), false)).await?;
        let registration = settle(&self.voter, &answers)?;
        *self.registration.lock() = registration;
        Ok(())
    }

    /// Checks with every heartbeat whether the server evicted keys. Locks may have been among them, so the bootstrap
    /// starts a new quarantine then, for all clients.
    pub(super) async fn look(&self, live: &Connection<Self>) {
        self.voter.compare_once();
        // With every heartbeat, because no answer announces the end of a quarantine or of the distrust in a clock.
        self.voter.report(Clock::Suspend.now());
        let mut command = Cmd::new();
        command.arg("INFO").arg("stats");
        let answer = live.send(&command).await;
        let now = answer.ok().and_then(|answer| evicted(text(&answer).ok()?));
        // Any difference counts, also a smaller number: `CONFIG RESETSTAT` begins a new count, and keys may have been
        // evicted since.
        let Some(now) = now.filter(|now| *now != self.evicted.load(Ordering::Relaxed)) else { return };
        // Stored only after the bootstrap: if that fails, the next heartbeat must find the difference again.
        if self.register_again(live).await.is_ok() {
            self.evicted.store(now, Ordering::Relaxed);
        }
    }

    /// Returns the voter that receives the readings of the server's clock.
    pub(super) fn voter(&self) -> &VoterState {
        &self.voter
    }
}

fn evicted(info: &str) -> Option<u64> {
    info.lines().find_map(|line| line.strip_prefix("evicted_keys:"))?.trim().parse().ok()
}

/// Reads the answers, logs a new quarantine, and refuses a client whose `max_ttl` differs from that of the others.
fn settle(voter: &VoterState, answers: &[Value]) -> Result<Registration, Failure> {
    let (boot, registration) = read(answers)?;
    // Counted from after the answer, so the end is never earlier here than on the server.
    voter.quarantined(Clock::Suspend.now(), boot.left);
    tell(voter, &boot);
    // Checked before the run id is recorded. A refused voter that recorded it would make the other voter, which leads
    // to the same server, be refused at its next registration.
    if voter.votes_elsewhere(registration.run) {
        return Err(twice());
    }
    voter.observed().set_run(registration.run);
    if boot.max_ttl == voter.max_ttl() {
        return Ok(registration);
    }
    let (theirs, ours) = (boot.max_ttl, voter.max_ttl());
    let text = format!(
        "the clients of this voter agreed on max_ttl={theirs:?} and this one says {ours:?}: all must say the same. To \
         change it, stop all of them, wait {:?}, and delete the key `{MARKER}` on every voter",
        quarantine(theirs)
    );
    Err(Failure::new(LockErrorKind::InvalidRequest, text))
}

/// Returns the error for a server that is named twice: with two votes of one server, a majority would mean nothing.
pub(super) fn twice() -> Failure {
    let text = "this server is named twice among the voters: each must be a server of its own";
    Failure::new(LockErrorKind::InvalidRequest, text)
}

/// Logs why a quarantine began. `why` is 0 for all but the client whose bootstrap wrote the marker, so one client logs
/// it.
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
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(byte: u8) -> Value {
        Value::BulkString(vec![byte; 40])
    }

    fn queued(boot: Vec<Value>) -> Vec<Value> {
        let queued = || Value::SimpleString("QUEUED".to_owned());
        let exec = Value::Array(vec![Value::Array(boot), bulk(b'1'), bulk(b'2')]);
        vec![Value::Okay, queued(), queued(), queued(), exec]
    }

    fn booted(run: u8, numbers: [i64; 4], marker_digest: &str) -> Vec<Value> {
        let numbers = numbers.into_iter().map(Value::Int);
        std::iter::once(bulk(run)).chain(numbers).chain([Value::BulkString(marker_digest.into())]).collect()
    }

    #[test]
    fn the_answers_are_read() {
        let (boot, registration) =
            read(&queued(booted(b'a', [30_000, 2, 5, 99], "seal"))).expect("all is there");
        let (max_ttl, left) = (Duration::from_secs(30), Duration::from_micros(5));
        assert_eq!(boot, Boot { max_ttl, why: 2, left });
        let marker_digest = Arc::from(&b"seal"[..]);
        assert_eq!(
            registration,
            Registration { run: [b'a'; 40], marker_digest, till: 99, one: [b'1'; 40], all: [b'2'; 40] }
        );
        assert!(read(&queued(vec![bulk(b'a'), Value::Int(30_000)])).is_err());
        assert!(read(&[Value::Okay, Value::Nil]).is_err());
        assert!(read(&[]).is_err());
    }

    #[test]
    fn the_texts_say_what_they_take_and_why_they_are_atomic() {
        let parts = [include_str!("scripts/gate.lua"), include_str!("scripts/free.lua")];
        for text in [BOOT.text()].into_iter().chain(parts) {
            let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
            for word in ["KEYS", "ARGV", "Returns", "Atomic because"] {
                assert!(header.contains(word), "{header} lacks {word}");
            }
        }
    }
}
