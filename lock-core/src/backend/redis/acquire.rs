//! Getting a lock, and its fencing token.

use std::time::Duration;

use ::redis::{Cmd, Value};

use super::client::{Redis, millis};
use super::connection::Live;
use super::error::Failure;
use super::scripts::Script;
use crate::backend::{Attempt, Claim, FencingToken, Grant, Held};
use crate::clock::{Clock, Moment};
use crate::error::LossReason;
use crate::owner::{OwnerRecord, OwnerToken};

/// How much longer than the lease the last fencing token is remembered: ten leases, and not less than an hour. While
/// it is, the tokens grow even if the server's clock is set back; without it, that clock alone makes them grow.
const FENCE_LEASES: u32 = 10;
const FENCE_AT_LEAST: Duration = Duration::from_secs(60 * 60);

impl Redis {
    /// One attempt. A free key costs one plain SET; the script runs where the key is taken, perhaps by this very
    /// owner, and where the fencing token is wanted.
    pub(super) async fn acquire(&self, claim: &Claim, deadline: Duration) -> Result<Attempt, Failure> {
        let start = Clock::Suspend.now();
        let (live, ready) = match self.links.now() {
            // The usual case, with no await since `start`: the clock need not be read again.
            Some(live) => (live, start),
            None => (self.links.live().await?, Clock::Suspend.now()),
        };
        claim.mark_sent();
        let token = claim.owner.token();
        let value = claim.record.to_value(&token);
        if !claim.fencing {
            match live.send(&set(claim, &value)).await? {
                Value::Okay => return Ok(granted(claim, ready, None)),
                Value::Nil => {}
                other => return Err(Failure::unexpected(&other)),
            }
        }
        for _ in 0..2 {
            let sent = Clock::Suspend.now();
            let command = script(&live, claim, &token, &value, start.plus(deadline));
            let answer = live.run(Script::Acquire, &command).await?;
            let (verdict, now, rest) = verdict(&answer)?;
            live.clock.learn(now, sent, Clock::Suspend.now());
            match verdict {
                1 => return Ok(granted(claim, sent, fence_of(rest)?)),
                0 => return Ok(Attempt::Held(held(rest))),
                // Too late by the server's clock, which may have been set since it was last asked. It has just been
                // asked, and nothing was done, so the request may be sent once more.
                _ => {}
            }
        }
        Err(Failure::late())
    }

    /// Makes the fencing token of a grant, or tells why the grant is not this owner's.
    pub(super) async fn make_fence(
        &self,
        claim: &Claim,
    ) -> Result<Result<FencingToken, LossReason>, Failure> {
        let live = self.links.live().await?;
        let token = claim.owner.token();
        let key = claim.key.as_str();
        let mut command = live.scripts.call(Script::Fence, 2, 4, 2 * key.len() + 80);
        command.arg(key).arg(FenceKey(key).to_string()).arg(token.as_str()).arg(millis(fence_ttl(claim.ttl)));
        let sent = Clock::Suspend.now();
        let answer = live.run(Script::Fence, &command).await?;
        let (verdict, now, rest) = verdict(&answer)?;
        live.clock.learn(now, sent, Clock::Suspend.now());
        match verdict {
            1 => fence_of(rest)?.map(Ok).ok_or_else(|| Failure::unexpected(&answer)),
            0 => Ok(Err(LossReason::Expired)),
            _ => Ok(Err(LossReason::Taken)),
        }
    }
}

/// `SET key value NX PX ttl`.
fn set(claim: &Claim, value: &str) -> Cmd {
    let key = claim.key.as_str();
    let mut command = Cmd::with_capacity(6, key.len() + value.len() + 32);
    command.arg("SET").arg(key).arg(value).arg("NX").arg("PX").arg(millis(claim.ttl));
    command
}

fn script(live: &Live, claim: &Claim, token: &OwnerToken, value: &str, end: Moment) -> Cmd {
    let key = claim.key.as_str();
    let fence_ttl = if claim.fencing { millis(fence_ttl(claim.ttl)) } else { 0 };
    let mut command = live.scripts.call(Script::Acquire, 2, 7, 2 * key.len() + value.len() + 120);
    command
        .arg(key)
        .arg(FenceKey(key).to_string())
        .arg(token.as_str())
        .arg(value)
        .arg(millis(claim.ttl))
        .arg(live.clock.at(end))
        .arg(fence_ttl);
    command
}

/// `{key}:f`: in braces, so that a Cluster would keep both keys of a lock on one node.
struct FenceKey<'a>(&'a str);

impl std::fmt::Display for FenceKey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{{{}}}:f", self.0)
    }
}

fn fence_ttl(lease: Duration) -> Duration {
    lease.saturating_mul(FENCE_LEASES).max(FENCE_AT_LEAST)
}

fn granted(claim: &Claim, sent: Moment, fence: Option<FencingToken>) -> Attempt {
    Attempt::Granted(Grant::new(sent, claim.ttl).with_fence(fence))
}

/// Splits an answer `{verdict, now, ..}`.
fn verdict(answer: &Value) -> Result<(i64, i64, &[Value]), Failure> {
    match answer {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(verdict), Value::Int(now), rest @ ..] => Ok((*verdict, *now, rest)),
            _ => Err(Failure::unexpected(answer)),
        },
        _ => Err(Failure::unexpected(answer)),
    }
}

fn fence_of(rest: &[Value]) -> Result<Option<FencingToken>, Failure> {
    match rest {
        [] => Ok(None),
        [Value::Int(number), ..] => match u64::try_from(*number) {
            Ok(number) => Ok(Some(FencingToken::new(number))),
            Err(_) => Err(Failure::unexpected(&rest[0])),
        },
        [other, ..] => Err(Failure::unexpected(other)),
    }
}

/// Who holds, from `{.., pttl, value}`; a hint, so what cannot be read is left out.
fn held(rest: &[Value]) -> Held {
    let mut held = Held::default();
    if let Some(Value::Int(left)) = rest.first() {
        // -1: a foreign lock without an expiry.
        held.remaining = u64::try_from(*left).ok().map(Duration::from_millis);
    }
    if let Some(Value::BulkString(value)) = rest.get(1) {
        held.holder = std::str::from_utf8(value).ok().and_then(OwnerRecord::from_value);
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let answer = Value::Array(vec![Value::Int(1), Value::Int(99), Value::Int(1_763_672_000_123_456)]);
        let (verdict_, now, rest) = verdict(&answer).expect("three numbers");
        assert_eq!((verdict_, now), (1, 99));
        assert_eq!(fence_of(rest).expect("a number"), Some(FencingToken::new(1_763_672_000_123_456)));
        assert_eq!(fence_of(&[]).expect("no fence"), None);
        assert!(fence_of(&[Value::Int(-1)]).is_err());
        for answer in [Value::Nil, Value::Int(1), Value::Array(vec![Value::Int(1)])] {
            assert!(verdict(&answer).is_err(), "{answer:?}");
        }
    }

    #[test]
    fn a_holder_is_read_as_far_as_it_can_be() {
        let value = format!("{} host=web-3 pid=811 service=shop since=1763672000123", "a".repeat(48));
        let ours = held(&[Value::Int(480), Value::BulkString(value.into_bytes())]);
        assert_eq!(ours.remaining, Some(Duration::from_millis(480)));
        assert_eq!(ours.holder.expect("a record").identity().host(), "web-3");
        let foreign = held(&[Value::Int(-1), Value::BulkString(vec![0xff, 0xfe])]);
        assert_eq!((foreign.remaining, foreign.holder), (None, None));
    }

    #[test]
    fn the_last_fence_outlives_ten_leases() {
        assert_eq!(fence_ttl(Duration::from_millis(500)), FENCE_AT_LEAST);
        assert_eq!(fence_ttl(Duration::from_secs(3_600)), Duration::from_secs(36_000));
        assert_eq!(FenceKey("shop:order:42").to_string(), "{shop:order:42}:f");
    }
}
