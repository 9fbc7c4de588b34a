//! Acquires locks, queues claims, and sends the heartbeats of waiters.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Pipeline, Value};

use super::grant::send_to_grant;
use super::reply::{clash, code, granted, held, refused};
use super::server::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::primary::{Primary, PrimaryConnection};
use crate::backend::redis::scripts::Script;
use crate::backend::redis::units::millis;
use crate::backend::{Ask, Attempt, Claim, Grant, Heartbeat, Held, Mode, Queue, WAITER_LEASE};
use crate::clock::{self, Clock, Moment};
use crate::key::Key;
use crate::owner::{OwnerRecord, OwnerToken};

/// How long the server remembers the last fencing token after the token was made or the lease of its holder was
/// renewed. The time is ten leases, but at most one lease and an hour. One minute is added in both cases.
///
/// The time matters only if the server's clock is set back. While the server remembers the last token, the next token
/// is larger, whatever the clock shows. The server forgets a token only when its clock is this far ahead of the token.
/// So if the clock is then set back by at most this time, the clock is still ahead of the token.
const FENCE_LEASES: u32 = 10;
const FENCE_MORE: Duration = Duration::from_secs(60 * 60);
const FENCE_AT_LEAST: Duration = Duration::from_secs(60);

/// If an exclusive claim is granted at least this long after its request, its value contains the time of the grant.
const LATE: Duration = Duration::from_secs(1);

/// Returns the value for a claim that may be granted now. If the claim is exclusive and at least [`LATE`] old, the
/// value contains the time of the grant. Only an exclusive value may contain it, because no script compares the whole
/// value of an exclusive holder.
fn value_of(claim: &Claim, token: &OwnerToken) -> String {
    let (mut value, now) = (claim.record.to_value(token), clock::wall());
    if claim.mode == Mode::Exclusive && now.saturating_sub(claim.record.since_epoch()) >= LATE {
        OwnerRecord::add_granted(&mut value, now);
    }
    value
}

impl Server<Primary> {
    /// Makes one attempt. If a plain SET can grant the claim, the SET is sent first, so that a free key costs only one
    /// command. If the key is held, perhaps by this owner, or if the claim needs more than a SET, the script is called.
    pub(crate) async fn acquire(
        &self,
        claim: &Claim,
        ask: Ask,
        deadline: Duration,
    ) -> Result<Attempt, Failure> {
        // The time limit of the scripts counts from here, so that neither the wait for a connection nor a second
        // request extends the limit.
        let start = Clock::Suspend.now();
        let live = &self.connections.get().await?;
        if ask.enqueues() || claim.notify_holder {
            // Subscribes before the request is sent. The message that the claim is granted, or that another process
            // waits, may arrive before the answer.
            Box::pin(live.subscribe_waiters(self.shared().listeners(), &claim.key)).await?;
            // The grant may arrive as a message, and then no command is sent before the first renewal. So the holder's
            // subscription must be made now.
            live.subscribe_holders(self.shared().shared_listeners());
        }
        // From now on the request may take effect, so the claim must be released if it is dropped.
        claim.mark_sent();
        if is_plain(claim) && !ask.enqueues() {
            let value = value_of(claim, &claim.owner.token());
            // The lease counts from here, because no request was sent during the wait for a connection.
            let sent = Clock::Suspend.now();
            // The server checks no time limit for a SET, so it also executes a SET that arrives late. If the answer is
            // lost, the library repeats the release for as long as the SET can still arrive (protocol.md, CancelAgain).
            match send_to_grant(live, &set(claim, &value), deadline).await? {
                (Value::Okay, confirmed) => {
                    let granted = Attempt::Granted(Grant::new(sent, claim.ttl));
                    return self.durable(live, (claim, granted), confirmed, deadline).await;
                }
                // A probe does not report the holder of the key, so the script is not called.
                (Value::Nil, _) if ask == Ask::Probe => return Ok(Attempt::Held(Held::default())),
                (Value::Nil, _) => {}
                (other, _) => return Err(Failure::unexpected(&other)),
            }
        }
        // This future is boxed, because a claim of a free key does not need it, and the future of every attempt would
        // reserve memory for it.
        Box::pin(self.ask(live, claim, ask, (start, deadline))).await
    }

    /// Runs the script that acquires, for a request that began at `start`.
    async fn ask(
        &self,
        live: &Arc<PrimaryConnection>,
        claim: &Claim,
        ask: Ask,
        (start, deadline): (Moment, Duration),
    ) -> Result<Attempt, Failure> {
        let token = claim.owner.token();
        let value = value_of(claim, &token);
        for _ in 0..2 {
            // The end is computed again for the second request: the first answer has corrected the estimate of the
            // clock.
            let end = live.clock.estimate_at(start.plus(deadline));
            let (script, command) = match claim.more.is_empty() {
                true => (Script::Acquire, one_key(live, claim, ask, (&token, &value), end)),
                false => (Script::AcquireAll, all_keys(live, claim, (&token, &value), end)),
            };
            let reply = live.call(script, &command).await?;
            match reply.verdict {
                1 => {
                    let granted = Attempt::Granted(granted(claim, &reply)?);
                    return self.durable(live, (claim, granted), None, deadline).await;
                }
                0 => return Ok(Attempt::Held(refused(claim, reply.rest(), reply.sent))),
                -2 => return Err(clash(claim, reply.rest())),
                // By the server's clock, the deadline has passed, perhaps because the clock was set since the last
                // answer. The script did nothing and returned the server's time, so the request may be sent once more.
                _ => {}
            }
        }
        Err(Failure::late())
    }

    pub(crate) async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat, Failure> {
        let live = self.connections.get().await?;
        // The connection may be a new one that has no subscription yet.
        live.subscribe_waiters(self.shared().listeners(), &claim.key).await?;
        // The claim is marked as sent, because a heartbeat may grant the lock, even after its caller was dropped.
        claim.mark_sent();
        let (key, token) = (claim.key.as_str(), claim.owner.token());
        let value = claim.record.to_value(&token);
        let mut command = live.scripts.call(Script::Heartbeat, iter::once(key), 4, value.len() + 80);
        command.arg(token.as_str()).arg(&value).arg(millis(claim.ttl)).arg(&*code(claim));
        let reply = live.call(Script::Heartbeat, &command).await?;
        match reply.verdict {
            1 => {
                let granted = Heartbeat::Granted(granted(claim, &reply)?);
                let deadline = self.deadline(claim.ttl.min(WAITER_LEASE));
                self.durable(&live, (claim, granted), None, deadline).await
            }
            0 => Ok(Heartbeat::Waiting(held(reply.rest(), reply.sent, true))),
            // Not an error: the waiter queues again, with a new owner token (protocol.md, FreshOwner).
            _ => Ok(Heartbeat::Gone),
        }
    }
}

impl Server<Primary> {
    /// Sends the plain SET of a claim to the Cluster node that its slot is being moved to.
    pub(crate) async fn set_asking(&self, claim: &Claim, deadline: Duration) -> Result<Attempt, Failure> {
        let live = self.connections.get().await?;
        let value = value_of(claim, &claim.owner.token());
        let mut commands = Pipeline::with_capacity(2);
        // ASKING applies only to the next command of the connection, so both are sent together.
        commands.cmd("ASKING").add_command(set(claim, &value));
        let sent = Clock::Suspend.now();
        match live.send_all(&commands).await?.pop() {
            Some(Value::Okay) => {
                let granted = Attempt::Granted(Grant::new(sent, claim.ttl));
                self.durable(&live, (claim, granted), None, deadline).await
            }
            Some(Value::Nil) => Ok(Attempt::Held(Held::default())),
            Some(Value::ServerError(error)) => Err(live.noted(Failure::of_reply(&error))),
            other => Err(Failure::unexpected(&other.unwrap_or(Value::Nil))),
        }
    }
}

/// Returns whether a plain SET does everything that the claim needs.
pub(crate) fn is_plain(claim: &Claim) -> bool {
    claim.mode == Mode::Exclusive && claim.queue == Queue::Barging && !claim.fencing && claim.more.is_empty()
}

/// Returns `SET key value NX PX ttl`.
fn set(claim: &Claim, value: &str) -> Cmd {
    let key = claim.key.as_str();
    let mut command = Cmd::with_capacity(6, key.len() + value.len() + 32);
    command.arg("SET").arg(key).arg(value).arg("NX").arg("PX").arg(millis(claim.ttl));
    command
}

fn one_key(
    live: &PrimaryConnection,
    claim: &Claim,
    ask: Ask,
    (token, value): (&OwnerToken, &str),
    end: i64,
) -> Cmd {
    let key = claim.key.as_str();
    let mut command = live.scripts.call(Script::Acquire, iter::once(key), 8, value.len() + 140);
    common(&mut command, claim, (token, value), end);
    command.arg(&*code(claim));
    match ask {
        Ask::Probe | Ask::Try => command.arg(""),
        Ask::Enqueue { room } => {
            command.arg(room.and_then(|room| u32::try_from(room).ok()).unwrap_or(u32::MAX))
        }
    };
    command.arg(match claim.queue {
        Queue::Barging => "1",
        Queue::Fifo => "0",
    });
    command
}

fn all_keys(live: &PrimaryConnection, claim: &Claim, (token, value): (&OwnerToken, &str), end: i64) -> Cmd {
    let keys = claim.keys().map(Key::as_str);
    let mut command = live.scripts.call(Script::AcquireAll, keys, 5, value.len() + 120);
    common(&mut command, claim, (token, value), end);
    command
}

pub(crate) fn common(command: &mut Cmd, claim: &Claim, (token, value): (&OwnerToken, &str), end: i64) {
    // With 0, the script makes no fencing token, and reads and writes one key less.
    let fence_ttl = if claim.fencing { millis(fence_ttl(claim.ttl)) } else { 0 };
    command.arg(token.as_str()).arg(value).arg(millis(claim.ttl)).arg(end).arg(fence_ttl);
}

pub(super) fn fence_ttl(lease: Duration) -> Duration {
    let leases = lease.saturating_mul(FENCE_LEASES).min(lease.saturating_add(FENCE_MORE));
    leases.saturating_add(FENCE_AT_LEAST)
}

/// Returns the holder of a fencing token, for the scripts: the owner token. After a hand-off within the process, a colon
/// and the number of the hand-off follow.
pub(crate) fn fence_of(claim: &Claim) -> String {
    match (claim.owner.token(), claim.handoffs) {
        (token, 0) => token.as_str().to_owned(),
        (token, turn) => format!("{}:{turn}", token.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_fence_outlives_its_lease_and_no_key_stays_for_long() {
        let secs = Duration::from_secs;
        for (lease, remembered) in [
            (Duration::from_millis(500), secs(65)),
            (secs(30), secs(360)),
            (secs(400), secs(4_060)),
            (secs(24 * 3_600), secs(25 * 3_600 + 60)),
        ] {
            assert_eq!(fence_ttl(lease), remembered, "{lease:?}");
        }
        assert_eq!(fence_ttl(Duration::MAX), Duration::MAX);
    }
}
