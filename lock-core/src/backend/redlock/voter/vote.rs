//! Requests the vote of a server for a claim.

use std::pin::pin;
use std::time::Duration;

use ::redis::{Cmd, Value};

use super::backend::{Voter, unsupported};
use super::boot::Registration;
use super::refusal::{clock_jumped, quarantined, too_long};
use super::scripts::MARKER;
use super::session::VoterSession;
use super::state::VoterState;
use crate::backend::redis::command::acquire::common;
use crate::backend::redis::command::reply::{clash, code, granted, refused};
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::link::Connection;
use crate::backend::{Attempt, Claim, Queue};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, Result};

/// The largest number of requests in one attempt. In the worst case, three requests fail: the first finds no script,
/// the second no marker, and the third a clock that was set.
const TRIES: usize = 4;

impl VoterState {
    /// Returns an error if no voter can grant the claim. Does no I/O.
    fn check(&self, claim: &Claim) -> Result<()> {
        if claim.keys().any(|key| key.as_str() == MARKER) {
            let detail = "this name belongs to the marker of the voter: choose another one";
            return Err(LockError::new(LockErrorKind::InvalidKey, detail).with_key(&claim.key));
        }
        if claim.queue == Queue::Fifo {
            return Err(unsupported(&claim.key));
        }
        // A quarantine lasts for `max_ttl`. If the server forgot a longer lease, that lease could still be held after
        // the quarantine.
        if claim.ttl > self.max_ttl() {
            let refusal = too_long(claim.ttl, self.max_ttl());
            return Err(refusal.to_error(self.address()).with_key(&claim.key));
        }
        Ok(())
    }
}

impl Voter {
    /// Attempts the claim once. Never sends a plain `SET`: only the gated scripts, which check that the server has
    /// forgotten no lease, may create a key.
    pub(super) async fn vote(&self, claim: &Claim) -> Result<Attempt> {
        let (voter, server) = (self.state(), &self.server);
        voter.check(claim)?;
        let deadline = server.deadline(claim.ttl);
        // The clock is checked before the request: if it was set, the server may end the lease at any time, and the
        // grant would not count.
        if let Some(left) = voter.distrusted(Clock::Suspend.now()) {
            return Err(server.error(&clock_jumped(left)).with_key(&claim.key));
        }
        let end = Clock::Suspend.now().plus(deadline);
        // If a request was sent in time, the server may still grant the claim, and the quorum must release it.
        let answer = server.connections.attempt(deadline, claim, pin!(self.ask(claim, end))).await;
        answer.map_err(|failure| server.error(&failure).or_key(&claim.key))
    }

    /// Requests the claim. No request of this call takes effect after `end`, when the caller times out.
    async fn ask(&self, claim: &Claim, end: Moment) -> Result<Attempt, Failure> {
        let voter = self.state();
        let live = self.server.connections.get().await?;
        let session = &live.session;
        // The claim is marked before the first byte is sent: if the caller is dropped at an await below, the claim must
        // be released.
        claim.mark_sent();
        for _ in 0..TRIES {
            let sent = Clock::Suspend.now();
            // The command is created anew for each request: a bootstrap replaces the registration, and each answer
            // corrects the estimate of the server's clock, which the time limit needs.
            let reply = match live.send(&command(&live, &session.registration(), claim, end)).await {
                // The server does not have the script, so it executed nothing. Registers the server, which loads the
                // script, and sends the request again.
                Err(failure) if failure.reaction == Reaction::LoadScripts => {
                    session.register_again(&live).await?;
                    continue;
                }
                answer => live.reply(answer?, sent)?,
            };
            match (reply.verdict, reply.rest()) {
                (1, _) => {
                    // Reading the reply has recorded the server's clock. If the clock was set, the lease cannot be
                    // relied on.
                    let grant = granted(claim, &reply)?;
                    return match voter.distrusted(Clock::Suspend.now()) {
                        None => Ok(Attempt::Granted(grant)),
                        // The server may end that lease at any time, and the quorum must release the grant.
                        Some(left) => Err(clock_jumped(left).in_doubt()),
                    };
                }
                (0, rest) => return Ok(Attempt::Held(refused(claim, rest, reply.sent))),
                (-2, rest) => return Err(clash(claim, rest)),
                // The marker is missing or belongs to another run: register the server, and then send the request
                // again.
                (-3, _) => session.register_again(&live).await?,
                (-4, [max, ..]) => {
                    let max_ttl = Duration::from_millis(number(max)?);
                    return Err(too_long(claim.ttl, max_ttl));
                }
                (-5, [left, ..]) => {
                    let left = Duration::from_micros(number(left)?);
                    // The quarantine is reported now, so that listeners do not wait for the next heartbeat.
                    voter.quarantined(Clock::Suspend.now(), left);
                    let until = Duration::from_micros(u64::try_from(reply.now).unwrap_or(0)) + left;
                    return Err(quarantined(left, until));
                }
                // The request arrived too late, and the server did nothing. This answer contains a new reading of the
                // clock, so the next request has a better time limit.
                _ => {}
            }
        }
        Err(unsettled(voter))
    }
}

fn number(value: &Value) -> Result<u64, Failure> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| Failure::unexpected(value)),
        other => Err(Failure::unexpected(other)),
    }
}

fn unsettled(voter: &VoterState) -> Failure {
    match voter.distrusted(Clock::Suspend.now()) {
        Some(_) => Failure::late(),
        None => Failure::new(
            LockErrorKind::Unavailable,
            "the server forgets its scripts or its marker as fast as they are made, or its clock is being changed",
        ),
    }
}

/// Returns the command that runs the gated script for the claim.
fn command(live: &Connection<VoterSession>, registration: &Registration, claim: &Claim, end: Moment) -> Cmd {
    let token = claim.owner.token();
    let value = claim.record.to_value(&token);
    let keys = claim.keys().count();
    let bytes: usize = claim.keys().map(|key| key.as_str().len() + 8).sum();
    let mut command = Cmd::with_capacity(13 + keys, bytes + value.len() + 280);
    let single = claim.more.is_empty();
    command.arg("EVALSHA").arg(if single { &registration.one[..] } else { &registration.all[..] }).arg(keys);
    for key in claim.keys() {
        command.arg(key.as_str());
    }
    // The end of the call in server time: a request that arrives after its caller has timed out does nothing.
    common(&mut command, claim, (&token, &value), live.clock.estimate_at(end));
    if single {
        command.arg(&*code(claim)).arg("").arg(1);
    }
    // These two arguments are last, after the arguments of the script that follows the gate: the gate counts from the
    // end.
    command.arg(registration.till).arg(&registration.marker_digest[..]);
    command
}
