//! Registers a server as a voter. This registration, the *bootstrap*, is the only way to load the *gated* scripts,
//! which can grant a lock, into a server.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Pipeline, Value};

use super::scripts::{ALL, MARKER, ONE, RUN_ID_LEN, boot_script};
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::parsed;

/// The result of the last bootstrap over a connection. Every call of a gated script needs this result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) run: [u8; RUN_ID_LEN],
    /// The contents of the marker (the key `lock:voter`) in one text, which every request contains. So even a cached
    /// script detects that the marker is not the marker of this registration. This may happen in another database of
    /// the server, behind a proxy that reconnects, or on a running server that became a replica.
    pub(super) marker_digest: Arc<[u8]>,
    /// The end of the quarantine, in which the server does not vote, by the server's clock, in us.
    pub(super) till: i64,
    /// The SHA-1 of the script for one claim.
    pub(super) one: [u8; 40],
    /// The SHA-1 of the script for a claim of several keys.
    pub(super) all: [u8; 40],
}

/// The results of a bootstrap: see `scripts/boot.lua`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Boot {
    pub(super) max_ttl: Duration,
    /// The reason for a new quarantine. The value is 0 for every client except the one whose bootstrap wrote the
    /// marker.
    pub(super) why: i64,
    pub(super) left: Duration,
}

/// The answer of the script.
type Booted = ([u8; RUN_ID_LEN], i64, i64, i64, i64, Vec<u8>);

/// Returns the commands of a bootstrap: `MULTI; EVAL boot; SCRIPT LOAD ..; EXEC`. The commands are one transaction,
/// because after a restart between two commands, the scripts would be loaded into a server without a marker of its run.
pub(super) fn transaction(max_millis: u64, new_cluster: bool) -> Pipeline {
    let mut commands = Pipeline::with_capacity(5);
    commands.cmd("MULTI");
    commands.cmd("EVAL").arg(boot_script()).arg(1).arg(MARKER).arg(max_millis).arg(u8::from(new_cluster));
    // This is the only place that loads these scripts. If another place loaded them, they could run on a server that
    // has no marker of its run.
    for source in [&ONE, &ALL] {
        commands.cmd("SCRIPT").arg("LOAD").arg(source.text());
    }
    commands.cmd("EXEC");
    commands
}

/// Reads the answers to [`transaction`].
pub(super) fn read(answers: &[Value]) -> Result<(Boot, Registration), Failure> {
    let last = answers.last().unwrap_or(&Value::Nil);
    let executed = match last {
        Value::Array(executed) => executed.as_slice(),
        _ => &[],
    };
    // The first error contains the reason. The reply to `EXEC` reports only that a command was refused.
    let refused = answers.iter().chain(executed).find_map(|answer| match answer {
        Value::ServerError(error) => Some(Failure::of_reply(error)),
        _ => None,
    });
    if let Some(failure) = refused {
        return Err(failure);
    }
    let ((run, max, why, left, till, marker_digest), one, all): (Booted, _, _) = parsed(last)?;
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let (max_ttl, left) = (Duration::from_millis(number(max)), Duration::from_micros(number(left)));
    let registration = Registration { run, marker_digest: marker_digest.into(), till, one, all };
    Ok((Boot { max_ttl, why, left }, registration))
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
        let (run, marker_digest, till) = ([b'a'; 40], Arc::from(&b"seal"[..]), 99);
        let [one, all] = [b'1', b'2'].map(|digit| [digit; 40]);
        assert_eq!(registration, Registration { run, marker_digest, till, one, all });
        assert!(read(&queued(vec![bulk(b'a'), Value::Int(30_000)])).is_err());
        assert!(read(&[Value::Okay, Value::Nil]).is_err());
        assert!(read(&[]).is_err());
    }
}
