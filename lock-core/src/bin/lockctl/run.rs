//! Implements the command `run`.

use std::hash::{DefaultHasher, Hash, Hasher};

use lock_core::LockManager;

use crate::acquire::acquire;
use crate::args::{Lock, Run, Store};
use crate::exit::{Exit, Fault};
use crate::signals::Signals;
use crate::supervise::under;
use crate::table;

/// The environment variable with the locks of all outer `lockctl run`. Each line has one lock: the process, and a hash
/// of the store and the key.
const HELD: &str = "LOCKCTL_HELD";

/// Runs the command while holding the lock.
pub(crate) async fn run(store: &Store, options: Run, json: bool) -> Result<Exit, Fault> {
    let Run { lock, end, contended_exit_code, command } = options;
    let mut signals = Signals::forwarded()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let held = nested(store, &locks, &lock).await?;
    let label = command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let label = label.chars().take(100).collect::<String>();
    let acquired = acquire(&locks, &lock, Some(label), &mut signals, json).await;
    let guard = acquired.map_err(|fault| fault.with_contended(contended_exit_code))?;
    let ttl = lock.max_hold.map_or(lock.ttl, |max| max.min(lock.ttl));
    let ended = under(&guard, ttl, &end, &command, &[(HELD, held)], &mut signals).await;
    let what = format!("the lock `{}`", guard.key().escape_debug());
    let loss = guard.check().err();
    ended.exit(&what, loss, guard.release().await.err())
}

/// Returns the value of [`HELD`] for the command. Refuses to wait without a limit for a lock that an outer `lockctl
/// run` holds.
async fn nested(store: &Store, locks: &LockManager, lock: &Lock) -> Result<String, Fault> {
    let mut hash = DefaultHasher::new();
    (store.url()?, &store.namespace, &lock.key).hash(&mut hash);
    let own = format!("{:x}", hash.finish());
    let outer = std::env::var(HELD).unwrap_or_default();
    let around = outer.lines().filter_map(|line| line.split_once(' ')).filter(|(_, hash)| *hash == own);
    let around: Vec<u32> = around.filter_map(|(process, _)| process.parse().ok()).collect();
    let waits = !lock.no_wait && lock.wait.is_none() && !lock.shared && lock.permits.is_none();
    if waits && !around.is_empty() {
        // A process may outlive an outer lock, and still have the variable. So the store must confirm that the lock is
        // held.
        let found = locks.inspect(lock.key.as_str()).await?;
        let holders = found.iter().flat_map(|lock| &lock.holders).filter_map(|holder| holder.record.as_ref());
        if holders
            .into_iter()
            .any(|record| table::is_of_this_host(record) && around.contains(&record.identity().pid()))
        {
            let key = lock.key.escape_debug();
            let text = format!("an outer lockctl holds `{key}` already: this one would wait for it for ever");
            return Err(Fault::usage(text));
        }
    }
    Ok(format!("{outer}{} {own}\n", std::process::id()))
}
