//! Implements the command `run`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use lock_core::{LockGuard, LockManager};
use tokio::time::Instant;

use crate::acquire::acquire;
use crate::args::{Lock, Run, Store};
use crate::exit::{Exit, Fault};
use crate::signals::Signals;
use crate::supervise::{is_over, under, whole_lease};
use crate::table;

/// The environment variable with the locks of all outer `lockctl run` processes. Each line has one lock: the process,
/// and a hash of the store, the namespace and the key.
const HELD: &str = "LOCKCTL_HELD";

/// Runs the command while holding the lock.
pub(crate) async fn run(store: &Store, options: Run, json: bool) -> Result<Exit, Fault> {
    let Run { lock, end, contended_exit_code, command } = options;
    let mut signals = Signals::forwarded()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let held = nested(store, &locks, &lock).await?;
    let label = command.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let label = label.chars().take(100).collect::<String>();
    let ttl = lock.max_hold.map_or(lock.ttl, |max| max.min(lock.ttl));
    let acquired = acquire_whole(&locks, lock, ttl, &label, &mut signals, json).await;
    let guard = acquired.map_err(|fault| fault.with_contended(contended_exit_code))?;
    let ended = under(&guard, ttl, &end, &command, &[(HELD, held)], &mut signals).await;
    let what = format!("the lock `{}`", guard.key().escape_debug());
    let loss = guard.check().err();
    ended.exit(&what, end.on_lost, loss, guard.release().await)
}

/// Acquires the lock. If the grant has only the short lease of a waiter, renews the lease. If the lock is lost before
/// the renewal, no command has started, so the lock is requested again for the rest of the wait.
async fn acquire_whole(
    locks: &LockManager,
    mut lock: Lock,
    ttl: Duration,
    label: &str,
    signals: &mut Signals,
    json: bool,
) -> Result<LockGuard, Fault> {
    let until = lock.wait.map(|wait| Instant::now() + wait);
    loop {
        let guard = acquire(locks, &lock, Some(label.to_owned()), signals, json).await?;
        let Err(fault) = signals.unless_ended(whole_lease(&guard, ttl)).await else { return Ok(guard) };
        let is_over = is_over(&guard);
        let _ = guard.release().await;
        lock.wait = until.map(|until| until.saturating_duration_since(Instant::now()));
        if !is_over || lock.no_wait || lock.wait.is_some_and(|left| left.is_zero()) {
            return Err(fault);
        }
    }
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
