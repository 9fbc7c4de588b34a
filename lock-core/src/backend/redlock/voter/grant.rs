//! How a voter sends its batches: claims of free locks, and releases.

use ::redis::{Cmd, Value};

use super::batch::Request;
use super::requests::{Free, Plain};
use super::session::VoterSession;
use crate::backend::redis::command::release::unmarked;
use crate::backend::redis::command::reply::held;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::link::Connection;
use crate::backend::redis::units::millis;
use crate::backend::{Attempt, Grant, Released};
use crate::clock::{Clock, Moment};
use crate::owner::Owner;

/// The length of the beginning of a token that says whose hand-offs it takes part in: `HANDOFF_LEN` of the scripts.
const HANDOFF_LEN: usize = Owner::PROCESS_LEN + 1;

impl Request<Connection<VoterSession>> for Plain {
    type Answer = Attempt;

    /// The caller of a claim that never left has nothing to release.
    const OUTLIVES_CALLER: bool = false;

    async fn send(
        requests: &[Self],
        live: &Connection<VoterSession>,
        end: Moment,
    ) -> Result<Vec<Option<Attempt>>, Failure> {
        let registration = live.session.registration();
        let bytes: usize = requests.iter().map(|one| one.key.as_str().len() + one.value.len() + 32).sum();
        let mut command = Cmd::with_capacity(6 + 3 * requests.len(), bytes + 240);
        command.arg("EVALSHA").arg(&registration.grant[..]).arg(requests.len());
        for request in requests {
            command.arg(request.key.as_str());
        }
        command.arg(live.clock.at(end)).arg(registration.till).arg(&registration.marker_digest[..]);
        for request in requests {
            command.arg(&*request.value).arg(millis(request.ttl));
        }
        // All leases count from here: nothing was sent before.
        let sent = Clock::Suspend.now();
        let answer = match live.send(&command).await {
            // Once for all of them, and not for each.
            Err(failure) if failure.reaction == Reaction::LoadScripts => {
                live.session.register_again(live).await?;
                return Ok(Vec::new());
            }
            answer => answer?,
        };
        match &answer {
            Value::Int(0) => Ok(Vec::new()),
            Value::Int(now) => {
                live.learn(*now, sent, Clock::Suspend.now());
                Ok(requests.iter().map(|one| Some(Attempt::Granted(Grant::new(sent, one.ttl)))).collect())
            }
            Value::Array(parts) => match parts.as_slice() {
                [Value::Int(now), each @ ..] if each.len() == requests.len() => {
                    live.learn(*now, sent, Clock::Suspend.now());
                    Ok(requests.iter().zip(each).map(|(one, answer)| read(one, answer, sent)).collect())
                }
                _ => Err(Failure::unexpected(&answer)),
            },
            _ => Err(Failure::unexpected(&answer)),
        }
    }
}

/// Reads one part of the answer of `grant.lua` to a claim that was sent at `sent`.
fn read(claim: &Plain, answer: &Value, sent: Moment) -> Option<Attempt> {
    match answer {
        Value::Int(1) => Some(Attempt::Granted(Grant::new(sent, claim.ttl))),
        Value::Array(holder) => match holder.as_slice() {
            [left @ Value::Int(_), value @ Value::BulkString(text)] => {
                let own = text.get(..HANDOFF_LEN) == claim.value.as_bytes().get(..HANDOFF_LEN);
                // As `held` of lib.lua answers: there are no waiters, and this claim has no place.
                let rest =
                    [left.clone(), value.clone(), Value::Int(0), Value::Int(-1), Value::Int(own.into())];
                Some(Attempt::Held(held(&rest, sent, false)))
            }
            _ => None,
        },
        _ => None,
    }
}

impl Request<Connection<VoterSession>> for Free {
    type Answer = Released;

    /// The lock would stay until the end of its lease.
    const OUTLIVES_CALLER: bool = true;

    /// Needs no end: the script compares the owner, and a quorum counts no vote of an owner whose release has not been
    /// answered.
    async fn send(
        requests: &[Self],
        live: &Connection<VoterSession>,
        _end: Moment,
    ) -> Result<Vec<Option<Released>>, Failure> {
        let registration = live.session.registration();
        let bytes: usize = requests.iter().map(|one| one.key.as_str().len() + Owner::TOKEN_LEN + 17).sum();
        let mut command = Cmd::with_capacity(3 + 2 * requests.len(), bytes + 64);
        command.arg("EVALSHA").arg(&registration.release[..]).arg(requests.len());
        for request in requests {
            command.arg(request.key.as_str());
        }
        for request in requests {
            command.arg(&unmarked(&request.owner.token())[..]);
        }
        let answer = match live.send(&command).await {
            // The script that releases one lock is loaded by the first caller that needs it, without a bootstrap.
            Err(failure) if failure.reaction == Reaction::LoadScripts => return Ok(Vec::new()),
            answer => answer?,
        };
        match &answer {
            Value::Int(1) => Ok(vec![Some(Released::Released); requests.len()]),
            Value::Array(each) if each.len() == requests.len() => Ok(each.iter().map(freed).collect()),
            _ => Err(Failure::unexpected(&answer)),
        }
    }
}

/// Reads one part of the answer of `release.lua`.
fn freed(answer: &Value) -> Option<Released> {
    match answer {
        Value::Int(1) => Some(Released::Released),
        Value::Int(0) => Some(Released::Expired),
        Value::Int(-1) => Some(Released::Taken),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::key::Key;

    const TTL: Duration = Duration::from_secs(1);

    fn claim() -> Plain {
        let value = format!("{} pid=1", "a".repeat(Owner::TOKEN_LEN));
        Plain { key: Key::new("k").expect("a key"), value: value.into(), ttl: TTL }
    }

    fn holder(value: &str) -> Value {
        Value::Array(vec![Value::Int(300), Value::BulkString(value.into())])
    }

    #[test]
    fn every_answer_to_a_claim_has_its_meaning() {
        let sent = Clock::Suspend.now();
        let read = |answer: &Value| read(&claim(), answer, sent);
        assert!(matches!(read(&Value::Int(1)), Some(Attempt::Granted(grant)) if grant.lease == TTL));
        let (ours, other) = ("a".repeat(Owner::PROCESS_LEN + 1), "b".repeat(Owner::TOKEN_LEN));
        for (value, expected) in [(ours.as_str(), true), (&other, false), ("", false), ("a", false)] {
            let Some(Attempt::Held(held)) = read(&holder(value)) else { panic!("{value}") };
            assert_eq!((held.own, held.remaining), (expected, Some(Duration::from_millis(300))), "{value}");
            assert_eq!((held.waiters, held.position), (Some(0), None));
        }
        for answer in [Value::Int(0), Value::Nil, Value::Array(vec![Value::Int(1)])] {
            assert!(read(&answer).is_none(), "{answer:?}");
        }
    }

    #[test]
    fn every_answer_to_a_release_has_its_meaning() {
        let table = [
            (1, Some(Released::Released)),
            (0, Some(Released::Expired)),
            (-1, Some(Released::Taken)),
            (2, None),
        ];
        for (number, expected) in table {
            assert_eq!(freed(&Value::Int(number)), expected);
        }
    }
}
