//! Reads the answers of the scripts.

use std::borrow::Cow;
use std::time::Duration;

use ::redis::Value;

use crate::backend::conflict::{self, Use};
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Reply;
use crate::backend::redis::scripts::MARK;
use crate::backend::{Claim, FencingToken, Grant, Held, Mode};
use crate::clock::Moment;
use crate::error::LockErrorKind;
use crate::key::Key;
use crate::owner::{Owner, OwnerRecord};

/// The digits that replace the owner token in the value of a kept key: a key that stays locked after its release.
const NO_TOKEN: &str = "000000000000000000000000000000000000000000000000";

/// Reads a grant of the full lease from `{.., waiters or nil[, fence]}`. If the fencing token is ahead of the server's
/// time, marks the claim.
pub(crate) fn granted(claim: &Claim, reply: &Reply) -> Result<Grant, Failure> {
    read_grant(claim, reply.sent, reply.now, reply.rest())
}

fn read_grant(claim: &Claim, sent: Moment, now: i64, rest: &[Value]) -> Result<Grant, Failure> {
    let (waiters, rest) = rest.split_first().ok_or_else(|| Failure::unexpected(&Value::Nil))?;
    let fence = match rest {
        [] => None,
        [number, ..] => Some(fence(claim, now, number)?),
    };
    let waiters = match waiters {
        // The server did not count the waiters.
        Value::Nil => None,
        waiters => Some(count(waiters)?),
    };
    Ok(Grant::new(sent, claim.ttl).with_fence(fence).with_waiters(waiters))
}

/// Reads a fencing token. `now` is the server's time when the token was made.
pub(crate) fn fence(claim: &Claim, now: i64, number: &Value) -> Result<FencingToken, Failure> {
    match number {
        Value::Int(number) => {
            // From now on, every renewal must also extend the time for which the server remembers the token.
            claim.mark_fenced();
            // If a token is ahead of the clock, the clock was set back. Then the process must not derive further tokens
            // from this token.
            if *number > now {
                claim.mark_fence_ahead();
            }
            let number = u64::try_from(*number).map_err(|_| Failure::unexpected(&Value::Int(*number)))?;
            Ok(FencingToken::new(number))
        }
        other => Err(Failure::unexpected(other)),
    }
}

pub(crate) fn count(value: &Value) -> Result<usize, Failure> {
    match value {
        Value::Int(number) => usize::try_from(*number).map_err(|_| Failure::unexpected(value)),
        other => Err(Failure::unexpected(other)),
    }
}

/// Reads the holder and the waiters from `{.., pttl, holder, others, place, own[, kept]}`. These are hints, so an
/// unreadable part is omitted. `sent` is the time at which the request was sent. If the answer has no `kept`, `queued`
/// says whether the claim is queued.
pub(crate) fn held(rest: &[Value], sent: Moment, queued: bool) -> Held {
    let number = |at: usize| match rest.get(at) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    let value = match rest.get(1) {
        Some(Value::BulkString(value)) => std::str::from_utf8(value).ok(),
        _ => None,
    };
    let queued = number(5).map_or(queued, |queued| queued == 1);
    let holder = value.and_then(record);
    let is_held = matches!(rest.get(1), Some(Value::BulkString(value)) if !value.is_empty());
    // A release that keeps the key replaces the token at the beginning of the value with zeros: see release_queued.lua.
    let kept = holder.is_some() && value.is_some_and(|value| value.starts_with(NO_TOKEN));
    Held {
        // -1 means that the key has no expiry: it is a lock of another library.
        remaining: number(0).and_then(|left| u64::try_from(left).ok()).map(Duration::from_millis),
        // For a latch, and for a key that is being granted to a waiter, the answer contains no value.
        foreign: is_held && holder.is_none(),
        holder,
        waiters: number(2).and_then(|others| usize::try_from(others).ok()),
        position: number(3).and_then(|place| usize::try_from(place).ok()),
        own: number(4) == Some(1),
        queued_at: queued.then_some(sent),
        key: None,
        kept,
    }
}

/// Reads the answer *held* to `claim`. If the claim has several keys, the answer ends with the number of the held key.
pub(crate) fn refused(claim: &Claim, rest: &[Value], sent: Moment) -> Held {
    let [answer @ .., Value::Int(number)] = rest else { return held(rest, sent, false) };
    if claim.more.is_empty() {
        return held(rest, sent, false);
    }
    let held = held(answer, sent, false);
    match numbered(claim, *number) {
        Some(key) => held.on_key(claim, key),
        None => held,
    }
}

/// Reads the owner record in a stored value, with or without the mark.
fn record(value: &str) -> Option<OwnerRecord> {
    let (token, rest) = value.split_at_checked(Owner::TOKEN_LEN)?;
    match rest.strip_prefix(MARK) {
        Some(record) => OwnerRecord::from_value(&format!("{token} {record}")),
        None => OwnerRecord::from_value(value),
    }
}

/// Returns the mode of a claim in the notation of the scripts.
pub(crate) fn code(claim: &Claim) -> Cow<'static, str> {
    match (claim.mode, claim.permits) {
        (Mode::Permit { of }, permits) if permits != 1 => format!("p{of}x{permits}").into(),
        (mode, _) => mode.code(),
    }
}

/// Returns a mode in the notation of the scripts without the number of permits that a claim takes: `p5` for `p5x2`.
pub(super) fn without_permits(code: &str) -> &str {
    match code.split_once('x') {
        Some((mode, _)) if mode.starts_with('p') => mode,
        _ => code,
    }
}

/// Returns the failure for a key in an incompatible mode. Reads `{.., mode[, number of the key]}`.
pub(crate) fn conflict(rest: &[Value], asked: Use) -> Failure {
    let code = match rest.first() {
        Some(Value::BulkString(code)) => std::str::from_utf8(code).ok(),
        _ => None,
    };
    let Some(in_force) = code.map(without_permits).and_then(Use::from_code) else {
        return Failure::unexpected(rest.first().unwrap_or(&Value::Nil));
    };
    Failure::new(LockErrorKind::InvalidRequest, conflict::in_use("the key", in_force, asked))
}

/// Returns the failure for a conflict between `claim` and the mode of its key. If the claim has several keys, the
/// answer contains the number of the key after the mode.
pub(crate) fn clash(claim: &Claim, rest: &[Value]) -> Failure {
    let failure = conflict(rest, Use::Lock(claim.mode));
    match rest.get(1) {
        Some(Value::Int(number)) => match numbered(claim, *number) {
            Some(key) => failure.on_key(key),
            None => failure,
        },
        _ => failure,
    }
}

/// Returns the key of `claim` with this number. The first key has the number 1.
fn numbered(claim: &Claim, number: i64) -> Option<&Key> {
    claim.keys().nth(usize::try_from(number).ok()?.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::owner::{Identity, OwnerSource};
    use std::sync::Arc;

    fn claim() -> Claim {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("")), None);
        Claim::new(Key::new("k").expect("a key"), owner, Duration::from_secs(1), record)
    }

    #[test]
    fn the_permits_of_a_claim_follow_its_mode() {
        let coded = |mode, permits| code(&Claim { mode, permits, ..claim() });
        let (permit, exclusive) = (Mode::Permit { of: 5 }, Mode::Exclusive);
        for (mode, permits, expected) in [(permit, 1, "p5"), (permit, 2, "p5x2"), (exclusive, 2, "x")] {
            let code = coded(mode, permits);
            assert_eq!(code, expected);
            assert_eq!(Mode::from_code(without_permits(&code)), Some(mode), "{code}");
        }
    }

    #[test]
    fn grants_are_read() {
        let rest = [Value::Int(3), Value::Int(1_763_672_000_123_456)];
        let (claim, sent) = (claim(), Clock::Suspend.now());
        let grant = read_grant(&claim, sent, i64::MAX, &rest).expect("a grant");
        assert_eq!(grant.fence, Some(FencingToken::new(1_763_672_000_123_456)));
        assert_eq!((grant.waiters, grant.lease), (Some(3), claim.ttl));
        assert!(!claim.is_fence_ahead());
        assert_eq!(read_grant(&claim, sent, 1, &[Value::Int(0)]).expect("no fence").fence, None);
        assert_eq!(read_grant(&claim, sent, 1, &[Value::Nil]).expect("nobody looked").waiters, None);
        assert!(read_grant(&claim, sent, 1, &[]).is_err());
        assert!(fence(&claim, 1, &Value::Int(-1)).is_err());
    }

    #[test]
    fn a_token_ahead_of_the_clock_is_noted() {
        let claim = claim();
        fence(&claim, 5, &Value::Int(5)).expect("a token");
        assert!(!claim.is_fence_ahead());
        fence(&claim, 5, &Value::Int(6)).expect("a token");
        assert!(claim.is_fence_ahead());
    }

    #[test]
    fn a_kept_key_and_the_key_that_is_held_are_read() {
        let (sent, record) = (Clock::Suspend.now(), "host=web-3 pid=811 service=shop since=1763672000123");
        assert_eq!(NO_TOKEN.len(), Owner::TOKEN_LEN);
        let kept = bulk(&format!("{NO_TOKEN} {record} kept={}", "a".repeat(48)));
        let kept = held(&[Value::Int(480), kept], sent, false);
        assert!(kept.kept && kept.holder.is_some_and(|holder| holder.identity().pid() == 811));
        let live = bulk(&format!("{} {record}", "a".repeat(48)));
        assert!(!held(&[Value::Int(480), live.clone()], sent, false).kept);
        let other = Key::new("l").expect("a key");
        let claim = Claim { more: [other.clone()].into(), ..claim() };
        let rest = |number: i64| {
            [&[Value::Int(480), live.clone()][..], &[2, -1, 0, number].map(Value::Int)[..]].concat()
        };
        let second = refused(&claim, &rest(2), sent);
        assert_eq!((second.key, second.queued_at, second.waiters), (Some(other), None, Some(2)));
        assert_eq!(refused(&claim, &rest(1), sent).key, Some(claim.key.clone()));
        for none in [0, 3, -1] {
            assert_eq!(refused(&claim, &rest(none), sent).key, None, "{none}");
        }
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_holder_is_read_as_far_as_it_can_be() {
        let sent = Clock::Suspend.now();
        let value = format!("{} host=web-3 pid=811 service=shop since=1763672000123", "a".repeat(48));
        let rest = [Value::Int(480), bulk(&value)];
        let ours = held(&[&rest[..], &[2, 1, 1, 1].map(Value::Int)].concat(), sent, false);
        assert_eq!(ours.remaining, Some(Duration::from_millis(480)));
        assert_eq!((ours.waiters, ours.position, ours.own), (Some(2), Some(1), true));
        assert_eq!((ours.queued_at, ours.foreign), (Some(sent), false));
        assert_eq!(ours.holder.expect("a record").identity().host(), "web-3");
        let marked = format!("{}!host=web-3 pid=811 service=shop since=1763672000123", "a".repeat(48));
        let marked = held(&[Value::Int(480), Value::BulkString(marked.into_bytes())], sent, false);
        assert_eq!(marked.holder.expect("a record").identity().pid(), 811);
        for text in ["!".to_owned(), "é".repeat(24), "é".repeat(25), format!("{}!", "a".repeat(48))] {
            assert!(
                held(&[Value::Int(480), Value::BulkString(text.into_bytes())], sent, false).holder.is_none()
            );
        }
        let foreign = held(&[Value::Int(-1), Value::BulkString(vec![0xff, 0xfe])], sent, false);
        assert_eq!((foreign.remaining, foreign.queued_at), (None, None));
        assert!(foreign.holder.is_none() && foreign.foreign);
        assert!(
            !held(&[Value::Int(0), Value::BulkString(Vec::new())], sent, false).foreign,
            "nobody holds it"
        );
        assert_eq!(held(&[], sent, true).queued_at, Some(sent));
    }

    #[test]
    fn a_conflict_names_both() {
        let in_force = [Value::BulkString(b"p3".to_vec())];
        let text = format!("{:?}", conflict(&in_force, Use::Lock(Mode::Exclusive)));
        assert!(text.contains("a semaphore of 3 permits") && text.contains("an exclusive lock"), "{text}");
        let latch = [Value::BulkString(b"latch".to_vec()), Value::Int(2)];
        let claim = Claim { more: [Key::new("second").expect("a key")].into(), ..claim() };
        let error = clash(&claim, &latch).error_of("store");
        assert!(error.to_string().contains("a count-down latch"), "{error}");
        assert_eq!(error.key(), Some("second"));
    }
}
