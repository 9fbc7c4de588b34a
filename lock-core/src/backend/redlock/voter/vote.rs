//! One attempt to acquire a claim on a voter.

use std::time::Duration;

use ::redis::{Cmd, Value};
use tokio::time::timeout;

use super::backend::{Voter, unsupported};
use super::boot::Registration;
use super::refusal::Refusal;
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

/// The most requests of one attempt: the server may have forgotten its scripts, then its marker, and its clock may have
/// been set.
const TRIES: usize = 4;

impl VoterState {
    /// Refuses, before any I/O, a claim that no answer could make valid.
    fn check(&self, claim: &Claim) -> Result<()> {
        if claim.keys().any(|key| key.as_str() == MARKER) {
            let detail = "this name belongs to the marker of the voter: choose another one";
            return Err(LockError::new(LockErrorKind::InvalidKey, detail).with_key(&claim.key));
        }
        if claim.queue == Queue::Fifo {
            return Err(unsupported(&claim.key));
        }
        // A quarantine lasts for `max_ttl`. A longer lease could be forgotten and still be held after the quarantine.
        if claim.ttl > self.max_ttl() {
            let refusal = Refusal::TooLong { ttl: claim.ttl, max_ttl: self.max_ttl() };
            return Err(refusal.to_error(self).with_key(&claim.key));
        }
        Ok(())
    }
}

impl Voter {
    /// Attempts the claim once. It never sends a plain `SET`: only the gated scripts may create a key.
    pub(super) async fn vote(&self, claim: &Claim) -> Result<Attempt> {
        let (voter, server) = (self.state(), &self.server);
        voter.check(claim)?;
        let deadline = server.deadline(claim.ttl);
        // Checked before the request: a clock that was set may end the lease at any time, so the grant would not count.
        if let Some(left) = voter.distrusted_now() {
            return Err(Refusal::ClockJumped { left, granted: false }.to_error(voter).with_key(&claim.key));
        }
        let end = Clock::Suspend.now().plus(deadline);
        let error = match timeout(deadline, self.ask(claim, end)).await {
            Ok(Ok(attempt)) => return Ok(attempt),
            Ok(Err(refusal)) => refusal.to_error(voter),
            // Once a request has left, the server may yet grant it, and the quorum must release it.
            Err(_) if claim.is_sent() => server.error(&server.elapsed(deadline)),
            Err(_) => server.error(&server.not_sent(deadline)),
        };
        Err(error.or_key(&claim.key))
    }

    /// Asks for the claim. No request of the call takes effect after `end`, when its caller gives up.
    async fn ask(&self, claim: &Claim, end: Moment) -> Result<Attempt, Refusal> {
        let voter = self.state();
        let live = self.server.connections.get().await?;
        let session = &live.session;
        // Before the first byte: a caller that is dropped at an await below must release by owner.
        claim.mark_sent();
        for _ in 0..TRIES {
            let sent = Clock::Suspend.now();
            // Made anew for each try: a bootstrap replaces the registration, and each answer corrects the estimate of
            // the clock that the time limit is computed with.
            let reply = match live.send(&command(&live, &session.registration(), claim, end)).await {
                // The server does not know the script, so nothing ran: register it, and the request can be sent again.
                Err(failure) if failure.reaction == Reaction::LoadScripts => {
                    session.register_again(&live).await?;
                    continue;
                }
                answer => live.reply(answer?, sent)?,
            };
            match (reply.verdict, reply.rest()) {
                (1, _) => {
                    // Reading the reply recorded the server's clock. If that shows a step, the lease is worth nothing.
                    let grant = granted(claim, &reply)?;
                    return match voter.distrusted_now() {
                        None => Ok(Attempt::Granted(grant)),
                        Some(left) => Err(Refusal::ClockJumped { left, granted: true }),
                    };
                }
                (0, rest) => return Ok(Attempt::Held(refused(claim, rest, reply.sent))),
                (-2, rest) => return Err(clash(claim, rest).into()),
                // The marker is missing or of another run: register, then ask again.
                (-3, _) => session.register_again(&live).await?,
                (-4, [max, ..]) => {
                    let max_ttl = Duration::from_millis(number(max)?);
                    return Err(Refusal::TooLong { ttl: claim.ttl, max_ttl });
                }
                (-5, [left, ..]) => {
                    let left = Duration::from_micros(number(left)?);
                    // Reported now, so that the listeners need not wait for the next heartbeat.
                    voter.quarantined(Clock::Suspend.now(), left);
                    let until = Duration::from_micros(u64::try_from(reply.now).unwrap_or(0)) + left;
                    return Err(Refusal::Quarantined { left, until });
                }
                // The request arrived too late. Nothing was done, and this answer brought a new reading of the clock,
                // so the next request carries a better deadline.
                _ => {}
            }
        }
        Err(unsettled(voter).into())
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

/// Returns the request of the gated script for the claim.
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
    // The end of the call in server time: a request that is delayed until its caller has given up does nothing.
    common(&mut command, claim, (&token, &value), live.clock.estimate_at(end));
    if single {
        command.arg(&*code(claim)).arg("").arg(1);
    }
    // These two come last, after the arguments of the script that follows the gate: the gate counts from the last one.
    command.arg(registration.till).arg(&registration.marker_digest[..]);
    command
}
