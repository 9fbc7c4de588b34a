//! Checks the rights of the user on every dial.
//!
//! A user may have the right to acquire a lock, but not to release it, renew it or wait for it. Without a check, such a
//! missing right would be noticed only when a lock cannot be released. So the library sends each command that a lock
//! may need once, in a form that changes nothing, in the round trip of the greeting. `ACL DRYRUN` cannot replace this
//! check: it needs a further right, and does not support renamed commands.

use std::fmt::Write as _;

use ::redis::{Pipeline, Value};

use crate::backend::redis::error::Failure;
use crate::backend::redis::keyspace::Keyspace;
use crate::error::LockErrorKind;

/// The key of the checks and of pings, which never exists. The checks also work for a user without rights to this key,
/// because the server first checks the right to the command.
pub(crate) const KEY: &str = "lock:rights";

/// The commands that any kind of lock may need. With these arguments, the commands change nothing if the key does not
/// exist. `HSET` fails because it lacks a value, and `EVALSHA` because no script has this name.
const CALLS: [&[&str]; 24] = [
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
    &["GET", KEY],
    &["GETRANGE", KEY, "0", "0"],
    &["SET", KEY, "", "XX", "PX", "1"],
    &["SETRANGE", KEY, "0", ""],
    &["EXISTS", KEY],
    &["PTTL", KEY],
    &["PEXPIRE", KEY, "1"],
    &["DEL", KEY],
    &["HGET", KEY, "f"],
    &["HSET", KEY, "f", "v", "g"],
    &["HDEL", KEY, "f"],
    &["HEXISTS", KEY, "f"],
    &["HLEN", KEY],
    &["HGETALL", KEY],
    &["ZADD", KEY, "XX", "1", "m"],
    &["ZREM", KEY, "m"],
    &["ZREMRANGEBYSCORE", KEY, "1", "0"],
    &["ZSCORE", KEY, "m"],
    &["ZCARD", KEY],
    &["ZRANK", KEY, "m"],
    &["ZRANGE", KEY, "0", "0"],
    &["ZREVRANGE", KEY, "0", "0"],
    &["TIME"],
];

/// The additional commands on a node of a Cluster.
const ON_NODE: [&[&str]; 1] = [&["ASKING"]];

/// The largest number of answers that [`examine`] reads.
pub(super) const ANSWERS: usize = CALLS.len() + ON_NODE.len();

fn calls(keyspace: Keyspace) -> impl Iterator<Item = &'static [&'static str]> {
    let on_node: &[_] = if keyspace == Keyspace::Slots { &ON_NODE } else { &[] };
    on_node.iter().chain(&CALLS).copied()
}

/// Adds the checks to the commands of a greeting. The last check is `TIME`.
pub(super) fn check(commands: &mut Pipeline, keyspace: Keyspace) {
    for call in calls(keyspace) {
        commands.cmd(call[0]);
        for argument in &call[1..] {
            commands.arg(*argument);
        }
    }
}

/// Returns a failure that names every command that the user may not run or that the server does not support. `info` and
/// `load` are the answers to `INFO` and to the first `SCRIPT LOAD`. `checks` are the answers to [`check`].
pub(super) fn examine(
    info: Option<&Value>,
    load: Option<&Value>,
    checks: &[Value],
    keyspace: Keyspace,
) -> Option<Failure> {
    let greeting = [("INFO", info), ("SCRIPT LOAD", load)];
    let checks = calls(keyspace).map(|call| call[0]).zip(checks.iter().map(Some));
    let (mut forbidden, mut unknown) = (String::new(), String::new());
    for (name, answer) in greeting.into_iter().chain(checks) {
        let list = match answer {
            Some(Value::ServerError(error)) => match (error.code(), error.details().unwrap_or_default()) {
                // If a key or a channel is forbidden, but the command is allowed, the text contains "to access".
                ("NOPERM", details) if details.contains("to run the") => &mut forbidden,
                ("ERR", details) if details.starts_with("unknown command") => &mut unknown,
                _ => continue,
            },
            _ => continue,
        };
        let separator = if list.is_empty() { "" } else { ", " };
        let _ = write!(list, "{separator}`{name}`");
    }
    let (kind, text) = match (forbidden.is_empty(), unknown.is_empty()) {
        (true, true) => return None,
        (false, _) => (
            LockErrorKind::Unavailable,
            format!(
                "the user may not run {forbidden} (NOPERM): locks need these commands, and the documentation of this \
                 backend has an `ACL SETUSER` with all that they need"
            ),
        ),
        (true, false) => (
            LockErrorKind::Unsupported,
            format!("the server does not know {unknown} (unknown command): locks need these commands"),
        ),
    };
    Some(Failure::new(kind, text).permanent())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> Value {
        let (code, details) = text.split_once(' ').expect("a code");
        let bytes = format!("-{code} {details}\r\n");
        ::redis::parse_redis_value(bytes.as_bytes()).expect("an error reply")
    }

    #[test]
    fn all_that_lack_are_named_at_once() {
        let mut answers = vec![Value::Nil; ANSWERS];
        assert!(examine(Some(&Value::Okay), Some(&Value::Okay), &answers, Keyspace::Whole).is_none());
        for harmless in [
            "NOSCRIPT No matching script",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
            "NOPERM User app has no permissions to access the 'lock:rights' key",
            "MOVED 1 a:1",
            "READONLY You can't write against a read only replica.",
            "ERR wrong number of arguments for 'hset' command",
        ] {
            answers[3] = error(harmless);
            assert!(
                examine(Some(&Value::Okay), Some(&Value::Okay), &answers, Keyspace::Whole).is_none(),
                "{harmless}"
            );
        }
        answers[0] = error("NOPERM this user has no permissions to run the 'evalsha' command");
        answers[8] = error("NOPERM this user has no permissions to run the 'del' command or its subcommand");
        answers[9] = error("ERR unknown command 'HGET', with args beginning with: ");
        let load = error("NOPERM User app has no permissions to run the 'script|load' command");
        let failure = examine(Some(&Value::Okay), Some(&load), &answers, Keyspace::Whole).expect("they lack");
        assert!(failure.is_permanent());
        let text = format!("{failure:?}");
        assert!(text.contains("may not run `SCRIPT LOAD`, `EVALSHA`, `DEL` (NOPERM)"), "{text}");
        let only = vec![answers[9].clone()];
        let failure = examine(None, None, &only, Keyspace::Whole).expect("unknown");
        let text = format!("{failure:?}");
        assert!(text.contains("Unsupported") && text.contains("unknown command"), "{text}");
        // On a Cluster node, one more command comes first.
        answers[0] = error("NOPERM this user has no permissions to run the 'asking' command");
        let failure = examine(None, None, &answers[..1], Keyspace::Slots).expect("it lacks");
        assert!(format!("{failure:?}").contains("may not run `ASKING` (NOPERM)"), "{failure:?}");
    }
}
