//! Defines which copies of a write a lock needs, and checks whether a server can confirm them. A *copy* of a write is
//! on a replica or on a disk.
//!
//! Source: [WAIT](https://redis.io/docs/latest/commands/wait/),
//! [WAITAOF](https://redis.io/docs/latest/commands/waitaof/).

use std::collections::HashMap;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, Value, from_redis_value};

use crate::backend::redis::config::{Durability, MinReplicas};
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{field, version_of};
use crate::backend::redis::units::millis;
use crate::error::LockErrorKind;

/// The version that introduced WAITAOF.
const WAITAOF: (u32, u32) = (7, 2);
/// The copies of a write that the server has confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    /// Whether the primary has the write on disk.
    local: bool,
    replicas: u32,
}

impl Durability {
    /// Returns the command that waits for copies of the writes of its connection.
    pub(crate) fn command(self, patience: Duration) -> Cmd {
        let mut command = Cmd::new();
        match self {
            Self::Replicas(replicas) => command.arg("WAIT").arg(replicas),
            Self::Aof { local, replicas } => command.arg("WAITAOF").arg(u8::from(local)).arg(replicas),
        };
        // `millis` never returns 0. With 0, the server would wait forever.
        command.arg(millis(patience));
        command
    }

    /// Returns the [`command`](Self::command) for zero copies, which the server answers at once. The answer shows
    /// whether the server supports the command and whether the user may send it.
    fn rehearsal(self) -> Cmd {
        match self {
            Self::Replicas(_) => Self::Replicas(0).command(Duration::ZERO),
            Self::Aof { .. } => Self::Aof { local: false, replicas: 0 }.command(Duration::ZERO),
        }
    }

    /// Reads the answer to [`command`](Self::command).
    pub(crate) fn read(self, answer: &Value) -> Result<Copies, Failure> {
        let copies = match (self, answer) {
            (_, Value::ServerError(error)) => return Err(Failure::of_reply(error)),
            (Self::Replicas(_), Value::Int(replicas)) => Some((false, *replicas)),
            (Self::Aof { .. }, Value::Array(parts)) => match parts.as_slice() {
                [Value::Int(local), Value::Int(replicas)] => Some((*local > 0, *replicas)),
                _ => None,
            },
            _ => None,
        };
        let copies = copies
            .and_then(|(local, replicas)| Some(Copies { local, replicas: u32::try_from(replicas).ok()? }));
        copies.ok_or_else(|| Failure::unexpected(answer))
    }

    /// Returns whether these copies are enough.
    pub(crate) fn is_met(self, copies: Copies) -> bool {
        let disk = matches!(self, Self::Aof { local: true, .. });
        // Compares the numbers, because WAIT also answers when its time limit has passed.
        copies.replicas >= self.replicas() && (copies.local || !disk)
    }

    /// Returns the failure that names the missing copies.
    pub(crate) fn missing(self, copies: Copies, patience: Duration) -> Failure {
        let (count, wanted) = (copies.replicas, self.replicas());
        let who = match self {
            Self::Aof { local: true, .. } if copies.local => "the primary's disk has it, and ",
            Self::Aof { local: true, .. } => "not even the primary's disk has it, and ",
            Self::Replicas(_) | Self::Aof { local: false, .. } => "",
        };
        let replicas = if wanted == 1 { "replica" } else { "replicas" };
        let text = format!(
            "{who}{count} of {wanted} {replicas} acknowledged it within {patience:?}, so it does not count \
             (`durability={self}`)"
        );
        // If a grant or a token may remain in the store, the caller must mark the failure as in doubt.
        Failure::new(LockErrorKind::Unavailable, text)
    }

    /// Returns an error if the server cannot guarantee the copies. `info` is its answer to `INFO`. `min_replicas`
    /// decides what happens if the user may not read `min-replicas-to-write`.
    pub(crate) async fn prove(
        self,
        info: &str,
        connection: &MultiplexedConnection,
        min_replicas: MinReplicas,
    ) -> Result<Proof, Failure> {
        self.suits(info)?;
        let mut questions = Pipeline::with_capacity(2);
        questions.add_command(self.rehearsal());
        // If only the primary's own disk must have a copy, `min-replicas-to-write` does not matter.
        if self.replicas() > 0 {
            questions.cmd("CONFIG").arg("GET").arg("min-replicas-to-write");
        }
        let answers = connection.clone().send_packed_commands(&questions, 0, questions.len()).await;
        let answers = answers.map_err(|error| Failure::of_error(&error))?;
        // A missing permission or an unknown command is an error now, and not only at the first lock.
        self.read(answers.first().unwrap_or(&Value::Nil))?;
        match answers.get(1) {
            Some(setting) => self.guards(setting, min_replicas),
            None => Ok(Proof::Whole),
        }
    }

    /// Checks that the server has the append-only file that the command needs, and supports the command.
    fn suits(self, info: &str) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::new(LockErrorKind::Unsupported, text));
        let Self::Aof { local, .. } = self else { return Ok(()) };
        if let Some(version) = field(info, "redis_version")
            && version_of(version).is_some_and(|it| it < WAITAOF)
        {
            return refuse(format!(
                "`durability={self}` needs Redis 7.2, and the server is {version}; `replicas(1)` works with every \
                 version"
            ));
        }
        // Without an append-only file, the server refuses WAITAOF for its own disk. Without this check, the first lock
        // would fail.
        if local && field(info, "aof_enabled") == Some("0") {
            return refuse(format!(
                "`durability={self}` needs the append-only file of the primary: `CONFIG SET appendonly yes`, and a line \
                 in redis.conf"
            ));
        }
        Ok(())
    }

    /// Checks `min-replicas-to-write`. Without this setting, a primary that was replaced without noticing continues to
    /// grant locks to clients without durability. A durable lock on the new primary does not exclude those clients.
    fn guards(self, setting: &Value, min_replicas: MinReplicas) -> Result<Proof, Failure> {
        let wanted = self.replicas();
        let refuse = |found: &str| {
            let text = format!(
                "`durability={self}` needs `min-replicas-to-write` of {wanted} or more, on the primary and on every \
                 replica that may become one: `CONFIG SET min-replicas-to-write {wanted}`, and a line in redis.conf; \
                 {found}"
            );
            Err(Failure::new(LockErrorKind::Unsupported, text))
        };
        let settings: HashMap<String, String> = match setting {
            Value::ServerError(_) if min_replicas == MinReplicas::Assumed => return Ok(Proof::Assumed),
            Value::ServerError(error) => {
                let code = error.code();
                return refuse(&format!(
                    "it could not be read ({code}), which takes `+config|get`; where nobody may, and it is set, say \
                     `min_replicas=assumed`"
                ));
            }
            setting => from_redis_value(setting.clone()).unwrap_or_default(),
        };
        // A setting that is missing in the answer counts as unreadable, and not as 0.
        let found = settings.get("min-replicas-to-write").and_then(|text| text.parse::<u32>().ok());
        match found {
            Some(found) if found >= wanted => Ok(Proof::Whole),
            Some(found) => refuse(&format!("it is {found}")),
            None if min_replicas == MinReplicas::Assumed => Ok(Proof::Assumed),
            None => refuse("the server does not say; where it is set, say `min_replicas=assumed`"),
        }
    }
}

/// The result of the check of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Everything was checked.
    Whole,
    /// `min-replicas-to-write` is assumed to be right.
    Assumed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn setting(value: &str) -> Value {
        Value::Array(vec![bulk("min-replicas-to-write"), bulk(value)])
    }

    fn refusal() -> Value {
        let error = "NOPERM this user has no permissions to run the 'config|get' command";
        ::redis::parse_redis_value(format!("-{error}\r\n").as_bytes()).expect("an error reply")
    }

    #[test]
    fn it_is_met_when_all_have_it_and_else_says_who_has() {
        let (replicas, disk) = (Durability::Replicas(2), Durability::Aof { local: true, replicas: 1 });
        let both = |local, replicas| Value::Array(vec![Value::Int(local), Value::Int(replicas)]);
        let table = [
            (replicas, Value::Int(2), None),
            (replicas, Value::Int(3), None),
            (replicas, Value::Int(1), Some("1 of 2 replicas acknowledged")),
            (disk, both(1, 1), None),
            (disk, both(0, 1), Some("not even the primary's disk has it, and 1 of 1 replica ")),
            (disk, both(1, 0), Some("the primary's disk has it, and 0 of 1 replica ")),
            (Durability::Aof { local: false, replicas: 1 }, both(0, 1), None),
        ];
        for (durability, answer, expected) in table {
            let copies = durability.read(&answer).expect("a number");
            assert_eq!(durability.is_met(copies), expected.is_none(), "{durability}: {answer:?}");
            if let Some(text) = expected {
                let failure = format!("{:?}", durability.missing(copies, Duration::from_millis(80)));
                assert!(failure.contains(text) && failure.contains("80ms"), "{failure}");
            }
        }
        for answer in [Value::Nil, Value::Int(-1), both(1, 1), refusal()] {
            assert!(replicas.read(&answer).is_err(), "{answer:?}");
        }
        assert!(disk.read(&Value::Int(1)).is_err());
    }

    #[test]
    fn no_patience_is_not_for_ever() {
        let text = |durability: Durability| {
            String::from_utf8(durability.command(Duration::ZERO).get_packed_command()).expect("ASCII")
        };
        assert!(text(Durability::Replicas(3)).ends_with("WAIT\r\n$1\r\n3\r\n$1\r\n1\r\n"));
        let aof = Durability::Aof { local: true, replicas: 2 };
        assert!(text(aof).ends_with("WAITAOF\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n1\r\n"));
    }

    #[test]
    fn a_server_without_waitaof_or_its_file_is_refused() {
        let aof = |local| Durability::Aof { local, replicas: 1 };
        let info = |version, file| format!("redis_version:{version}\r\naof_enabled:{file}\r\n");
        let table = [
            (aof(true), info("7.0.15", 1), Some("needs Redis 7.2, and the server is 7.0.15")),
            (aof(true), info("7.2.0", 0), Some("needs the append-only file")),
            (aof(true), info("7.2.0", 1), None),
            (aof(false), info("8.0.1", 0), None),
            (Durability::Replicas(1), info("6.2.0", 0), None),
        ];
        for (durability, info, expected) in table {
            match (durability.suits(&info), expected) {
                (Ok(()), None) => {}
                (Err(failure), Some(text)) => {
                    assert!(failure.is_permanent() && format!("{failure:?}").contains(text), "{failure:?}");
                }
                (outcome, _) => panic!("{durability} with {info}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn a_primary_that_grants_alone_is_refused() {
        let (read, assumed) = (MinReplicas::Read, MinReplicas::Assumed);
        let table = [
            (setting("2"), read, Ok(Proof::Whole)),
            (setting("3"), assumed, Ok(Proof::Whole)),
            (setting("1"), read, Err("it is 1")),
            // `assumed` does not apply to a setting that can be read.
            (setting("1"), assumed, Err("it is 1")),
            (refusal(), read, Err("could not be read (NOPERM)")),
            (refusal(), assumed, Ok(Proof::Assumed)),
            (Value::Array(vec![]), read, Err("`min_replicas=assumed`")),
            (Value::Array(vec![]), assumed, Ok(Proof::Assumed)),
        ];
        for (setting, min_replicas, expected) in table {
            match (Durability::Replicas(2).guards(&setting, min_replicas), expected) {
                (Ok(proof), Ok(expected)) => assert_eq!(proof, expected, "{setting:?}"),
                (Err(failure), Err(text)) => {
                    assert!(failure.is_permanent() && format!("{failure:?}").contains(text), "{failure:?}");
                }
                (outcome, _) => panic!("{setting:?}: {outcome:?}"),
            }
        }
    }
}
