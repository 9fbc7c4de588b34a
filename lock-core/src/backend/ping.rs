//! The answer of a store to a ping.

use std::fmt;
use std::time::Duration;

use crate::error::Result;

/// The answer of a store to a [ping](crate::LockManager::ping).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Ping {
    /// The time from the request to the answer. With several servers, the time until more than half of them had
    /// answered.
    #[cfg_attr(
        feature = "serde",
        serde(rename = "round_trip_us", serialize_with = "crate::serialize::micros")
    )]
    pub round_trip: Duration,
    /// The number of servers that decide about locks. With `redlock://` these are the voters, with a Redis Cluster the
    /// primaries. Otherwise the number is 1. etcd and ZooKeeper count as one server, because the member that answers
    /// has contacted the others.
    pub servers: usize,
    /// The number of servers that serve locks, always more than half. A server of `redlock://` that answers but does
    /// not vote does not count.
    pub serving: usize,
    /// One sentence about each problem. Locks work despite these problems. On a Redis Cluster, at least the locks of
    /// most keys work.
    pub degraded: Vec<String>,
}

impl Ping {
    /// Makes the answer of one server, for authors of backends.
    #[must_use]
    pub fn new(round_trip: Duration) -> Self {
        Self { round_trip, servers: 1, serving: 1, degraded: Vec::new() }
    }

    /// Adds a sentence about a problem, for authors of backends.
    #[must_use]
    pub fn with_degraded(mut self, sentence: impl Into<String>) -> Self {
        self.degraded.push(sentence.into());
        self
    }

    /// Returns whether locks work, but the store has a problem.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        !self.degraded.is_empty()
    }

    /// Merges the answers of several servers, each with the server's name. Returns `None` if half of the servers or
    /// more do not serve locks.
    #[cfg_attr(
        not(feature = "redis"),
        allow(dead_code, reason = "only Redis has several servers that answer")
    )]
    pub(crate) fn of_most(answers: &[(String, Result<Self>)]) -> Option<Self> {
        let mut round_trips: Vec<_> = answers
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok())
            .map(|ping| ping.round_trip)
            .collect();
        let most = answers.len() / 2 + 1;
        round_trips.sort_unstable();
        let mut merged = Self::new(*round_trips.get(most - 1)?);
        (merged.servers, merged.serving) = (answers.len(), round_trips.len());
        for (name, answer) in answers {
            let mut add = |sentence: &str| match sentence.contains(name.as_str()) {
                true => merged.degraded.push(sentence.to_owned()),
                false => merged.degraded.push(format!("`{name}`: {sentence}")),
            };
            match answer {
                Ok(ping) => ping.degraded.iter().for_each(|sentence| add(sentence)),
                Err(error) => add(error.detail()),
            }
        }
        Some(merged)
    }
}

/// Writes one line, such as `2 of 3 servers serve locks, answered in 1.2ms; redis at a:6379: no answer within 500ms`.
impl fmt::Display for Ping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.servers > 1 {
            write!(f, "{} of {} servers serve locks, ", self.serving, self.servers)?;
        }
        write!(f, "answered in {:.1?}", self.round_trip)?;
        self.degraded.iter().try_for_each(|sentence| write!(f, "; {sentence}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{LockError, LockErrorKind};

    #[test]
    fn most_servers_decide() {
        let up = |ms| Ok(Ping::new(Duration::from_millis(ms)));
        let down = || Err(LockError::new(LockErrorKind::Unavailable, "redis at b: no answer"));
        let table = [
            (vec![up(3), up(1), up(2)], Some("3 of 3 servers serve locks, answered in 2.0ms")),
            (
                vec![up(3), down(), up(2)],
                Some("2 of 3 servers serve locks, answered in 3.0ms; redis at b: no answer"),
            ),
            (
                vec![up(3), up(4), up(2).map(|ping| ping.with_degraded("it is slow"))],
                Some("3 of 3 servers serve locks, answered in 3.0ms; `c`: it is slow"),
            ),
            (vec![down(), down(), up(2)], None),
            (vec![up(1), down()], None),
            (vec![up(1)], Some("answered in 1.0ms")),
            (vec![down()], None),
            (vec![], None),
        ];
        for (answers, expected) in table {
            let named: Vec<_> = ["a", "b", "c"].map(str::to_owned).into_iter().zip(answers).collect();
            let merged = Ping::of_most(&named);
            assert_eq!(merged.as_ref().map(ToString::to_string).as_deref(), expected, "{named:?}");
            assert!(merged.is_none_or(|ping| ping.serving * 2 > ping.servers), "{named:?}");
        }
    }
}
