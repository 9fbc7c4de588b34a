//! Lists locks with their holders and waiters, and releases a grant by force.

use std::collections::HashSet;
use std::iter;
use std::time::Duration;

use ::redis::{Cmd, Pipeline, Value};

use super::server::Server;
use crate::backend::redis::keyspace::is_helper;
use crate::backend::redis::link::{Connection, Role, SessionState, parsed};

use super::renew::is_forgotten;
use super::reply::without_permits;
use crate::backend::redis::error::{Failure, Reaction, Redirect};
use crate::backend::redis::keyspace::Keyspace;
use crate::backend::redis::scripts::Script;
use crate::backend::{GrantId, HOLDERS_TOLD, HolderInfo, Listed, LockInfo, Mode, WAITERS_TOLD, WaiterInfo};
use crate::key::Key;
use crate::owner::OwnerRecord;

/// The number of keys that the server examines in one step of a scan.
const STEP: usize = 500;
/// The maximum number of keys that one script examines. If a script has much to report, it stops early, and another
/// script continues. A script usually takes a fraction of a millisecond, and a few milliseconds at most.
const BATCH: usize = 100;

impl<R: Role> Server<R> {
    /// Lists the locks with `SCAN`. The server serves other clients between the steps. Each round trip has its own
    /// deadline.
    pub(crate) async fn list(&self, prefix: &str, foreign: bool, limit: usize) -> Result<Listed, Failure> {
        // The list is not a snapshot: a lock that is acquired or released during the scan may be missing. `SCAN` is
        // certain to return a key only if the key exists during the whole scan.
        let (mut cursor, mut seen, mut locks) = ("0".to_owned(), HashSet::new(), Vec::new());
        loop {
            let mut scan = Cmd::new();
            scan.arg("SCAN").arg(&cursor).arg("MATCH").arg(beginning_with(prefix)).arg("COUNT").arg(STEP);
            let scanned = async { step(&self.connections.get().await?.send(&scan).await?) };
            let (next, keys) = self.connections.within(self.timeout(), scanned).await?;
            let keys: Vec<String> = keys.into_iter().filter(|key| !is_helper(key)).collect();
            let mut rest = keys.as_slice();
            while !rest.is_empty() {
                let batch = &rest[..rest.len().min(BATCH)];
                let (looked, found) =
                    self.connections.within(self.timeout(), self.look_into(batch, foreign)).await?;
                // A scan may return a key twice. Only locks are remembered, because there may be very many other keys.
                locks.extend(found.into_iter().filter(|lock| seen.insert(lock.key.clone())));
                rest = &rest[looked..];
            }
            if next == "0" || locks.len() > limit {
                return Ok(Listed::new(locks, limit));
            }
            cursor = next;
        }
    }

    /// Returns the holders and waiters of one key.
    pub(crate) async fn inspect(&self, key: &Key) -> Result<Option<LockInfo>, Failure> {
        let live = self.connections.get().await?;
        let mut command = list(&live, iter::once(key.as_str()), true);
        // With 1, the script fails if the key has data of another program. Every lock request for such a key fails, so
        // the key must not look free.
        command.arg(1);
        let answer = live.run(Script::List, &command).await?;
        let (_, mut found) = locks::<R>(&answer)?;
        Ok(found.pop())
    }

    /// Examines keys with one script. On a Cluster node, each key has its own script, because the next key is in
    /// another slot. Returns the number of examined keys, and the locks.
    async fn look_into(&self, keys: &[String], foreign: bool) -> Result<(usize, Vec<LockInfo>), Failure> {
        let live = self.connections.get().await?;
        // One script with keys of different slots would fail with CROSSSLOT.
        let per_script = if live.scripts.keyspace() == Keyspace::Slots { 1 } else { BATCH };
        let mut commands = Pipeline::with_capacity(keys.len().div_ceil(per_script));
        for keys in keys.chunks(per_script) {
            commands.add_command(list(&live, keys.iter().map(String::as_str), foreign));
        }
        let mut answers = live.send_all(&commands).await?;
        // If the server has forgotten the script, sends all calls again: listing twice changes nothing.
        if answers.iter().any(|answer| is_forgotten(Some(answer))) {
            live.send(&live.scripts.load(Script::List)).await?;
            answers = live.send_all(&commands).await?;
        }
        let (mut looked, mut found) = (0, Vec::new());
        for answer in &answers {
            let answer = match locks::<R>(answer) {
                // The slot of the key is being moved away from this Cluster node: the key is skipped.
                Err(Failure { reaction: Reaction::Follow(redirect), .. }) if redirect != Redirect::Down => {
                    (1, Vec::new())
                }
                answer => answer.map_err(|failure| live.noted(failure))?,
            };
            // Each script counts for at least one key. Otherwise a script that examines no key would be sent again
            // forever.
            looked += answer.0.max(1);
            found.extend(answer.1);
        }
        Ok((looked.min(keys.len()), found))
    }

    pub(crate) async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool, Failure> {
        let live = self.connections.get().await?;
        let mut command = live.scripts.call(Script::ForceRelease, iter::once(key.as_str()), 1, 64);
        command.arg(id.as_str());
        match live.run(Script::ForceRelease, &command).await? {
            // 0 is not a failure: the grant ended before the request arrived, and a later grant must not be released.
            Value::Int(done) => Ok(done == 1),
            other => Err(Failure::unexpected(&other)),
        }
    }
}

/// Returns the call of the script that examines these keys.
fn list<'a, S: SessionState>(
    live: &Connection<S>,
    keys: impl Iterator<Item = &'a str> + Clone,
    foreign: bool,
) -> Cmd {
    let mut command = live.scripts.call(Script::List, keys, 4, 48);
    command.arg(u8::from(foreign)).arg(WAITERS_TOLD).arg(HOLDERS_TOLD);
    command
}

/// Returns the `MATCH` pattern for all keys that begin with `prefix`. Special characters in the prefix are escaped.
fn beginning_with(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for char in prefix.chars() {
        if matches!(char, '*' | '?' | '[' | ']' | '\\' | '^' | '-') {
            pattern.push('\\');
        }
        pattern.push(char);
    }
    pattern.push('*');
    pattern
}

/// Reads the next cursor and the keys. Skips keys that are not valid text, because this library does not use such keys.
fn step(answer: &Value) -> Result<(String, Vec<String>), Failure> {
    let (cursor, keys): (String, Vec<Vec<u8>>) = parsed(answer)?;
    Ok((cursor, keys.into_iter().filter_map(|key| String::from_utf8(key).ok()).collect()))
}

/// One lock in the answer of the script, one of its holders, and one of its waiters: see `scripts/list.lua`.
type Lock = (String, String, Vec<Holder>, i64, i64, Vec<Waiter>);
type Holder = (String, String, i64, i64, String);
type Waiter = (String, String);

/// Reads the answer of one script: the number of keys that it examined, and the locks.
fn locks<R: Role>(answer: &Value) -> Result<(usize, Vec<LockInfo>), Failure> {
    let parts = parsed::<(i64, Vec<Lock>)>(answer).map_err(|failure| match failure.redirect() {
        // The call fails instead of skipping the key, because a node that is cut off from its Cluster cannot report any
        // lock.
        Some(Redirect::Down) => Redirect::Down.to_failure(),
        _ => failure,
    });
    let (looked, locks) = parts?;
    let found: Option<_> = locks.into_iter().map(info::<R>).collect();
    Ok((usize::try_from(looked).unwrap_or(0), found.ok_or_else(|| Failure::unexpected(answer))?))
}

/// Reads one lock of the answer. Returns `None` if a value has another form.
fn info<R: Role>((key, code, holders, holding, waiting, waiters): Lock) -> Option<LockInfo> {
    let mode_of = |code: &str| Mode::from_code(without_permits(code));
    let mode = mode_of(&code)?;
    let holders = holders.into_iter().map(|(id, record, left, kept, granted)| {
        let (record, left) = (OwnerRecord::from_record(&record), u64::try_from(left).ok());
        let holder = HolderInfo::new(id.parse().ok()?, record, left.map(Duration::from_millis), kept == 1);
        let mut holder = holder.with_held_since(granted.parse().ok().map(Duration::from_millis));
        if R::QUEUES && mode == Mode::Exclusive {
            // If the value has no time of the grant, the lock was granted within about a second after its request, so
            // the time of the request is used.
            holder.held_since = holder.since();
        }
        Some(holder)
    });
    let info = LockInfo::new(key, mode, holders.collect::<Option<_>>()?);
    let info = info.with_holding(usize::try_from(holding).ok()?);
    let waiters = waiters
        .iter()
        .map(|(code, record)| Some(WaiterInfo::new(OwnerRecord::from_record(record), mode_of(code)?)));
    Some(info.with_waiters(usize::try_from(waiting).ok()?, waiters.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        for (prefix, expected) in
            [("", "*"), ("shop:", "shop:*"), ("a*[b]?\\^c-d", "a\\*\\[b\\]\\?\\\\\\^c\\-d*")]
        {
            assert_eq!(beginning_with(prefix), expected);
        }
    }
}
