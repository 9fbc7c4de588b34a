//! A command under a lock.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use lock_core::{LockGuard, LockManager};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::acquire::acquire;
use crate::args::{End, Lock, OnLost, Run, Store};
use crate::child::{Child, code};
use crate::exit::{Exit, Fault};
use crate::lease::{Limits, Verdict};
use crate::signals::Signals;

/// The locks of the `lockctl run` around this one, one a line: their process, and a hash of the store and the key.
const HELD: &str = "LOCKCTL_HELD";
/// How often the lease is looked at, at most.
const LOOK: Duration = Duration::from_millis(50);
/// For how long a command may work on that is not stopped when its lock is lost.
const FOR_EVER: Duration = Duration::from_secs(1_000_000_000);

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
    under(&guard, ttl, &end, &command, &[(HELD, held)], &mut signals).await.finish(guard).await
}

/// Returns the locks that the command runs under. Refuses to wait for ever for one of them.
async fn nested(store: &Store, locks: &LockManager, lock: &Lock) -> Result<String, Fault> {
    let mut hash = DefaultHasher::new();
    (store.url()?, &store.namespace, &lock.key).hash(&mut hash);
    let own = format!("{:x}", hash.finish());
    let outer = std::env::var(HELD).unwrap_or_default();
    let around = outer.lines().filter_map(|line| line.split_once(' ')).filter(|(_, hash)| *hash == own);
    let around: Vec<u32> = around.filter_map(|(process, _)| process.parse().ok()).collect();
    let waits = !lock.no_wait && lock.wait.is_none() && !lock.shared && lock.permits.is_none();
    if waits && !around.is_empty() {
        // The variable stays with a process that outlives the lock.
        let found = locks.inspect(lock.key.as_str()).await?;
        let holders = found.iter().flat_map(|lock| &lock.holders).filter_map(|holder| holder.record.as_ref());
        if holders.into_iter().any(|record| around.contains(&record.identity().pid())) {
            let key = lock.key.escape_debug();
            let text = format!("an outer lockctl holds `{key}` already: this one would wait for it for ever");
            return Err(Fault::usage(text));
        }
    }
    Ok(format!("{outer}{} {own}\n", std::process::id()))
}

/// How a command under a lock has ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The command ended by itself, or by a signal of another process.
    Done(Exit),
    /// It was stopped, because the lock was about to be lost.
    Stopped,
    /// It was not started, or not waited for.
    Failed(Fault),
}

impl Ended {
    /// Releases the lock, and returns the exit code. A release that fails is told, and changes no code: the key is free
    /// when its lease is over.
    pub(crate) async fn finish(self, guard: LockGuard) -> Result<Exit, Fault> {
        let key = guard.key().to_owned();
        let loss = guard.check().err();
        let released = guard.release().await;
        match self {
            Self::Stopped => {
                let key = key.escape_debug();
                let why = loss
                    .or(released.err())
                    .map_or_else(|| "its lease was nearly over".to_owned(), |error| error.to_string());
                Err(Fault::new(
                    Exit::LOST,
                    format!("the lock `{key}` was lost and the command was stopped: {why}"),
                ))
            }
            Self::Done(exit) => {
                if let Err(error) = released {
                    eprintln!("lockctl: {error}");
                }
                Ok(exit)
            }
            Self::Failed(fault) => Err(fault),
        }
    }
}

/// Runs the command, forwards signals to it, and ends it before the lease of its lock is over.
pub(crate) async fn under(
    guard: &LockGuard,
    ttl: Duration,
    end: &End,
    command: &[std::ffi::OsString],
    more: &[(&str, String)],
    signals: &mut Signals,
) -> Ended {
    let mut variables = vec![("LOCK_KEY", guard.key().to_owned())];
    variables.extend(more.iter().cloned());
    // A store without tokens refuses; the command has none then.
    if let Ok(token) = guard.fencing_token().await {
        variables.push(("LOCK_FENCING_TOKEN", token.to_string()));
    }
    let lease = match whole_lease(guard, ttl).await {
        Ok(lease) => lease,
        Err(fault) => return Ended::Failed(fault),
    };
    let limits = Limits::new(lease, end.grace);
    let mut child = match Child::start(command, &variables, limits.grace) {
        Ok(child) => child,
        Err(fault) => return Ended::Failed(fault),
    };
    let ended = supervise(&mut child, guard, limits, end.on_lost, signals).await;
    child.dismiss().await;
    ended
}

/// Returns the length of a lease that was renewed just now. A grant that came from a queue has the short lease of a waiter
/// until its first renewal. A store of sessions renews by itself, and its leases are as long as its session.
async fn whole_lease(guard: &LockGuard, ttl: Duration) -> Result<Duration, Fault> {
    if guard.remaining() < ttl / 2 {
        let _ = guard.extend(ttl).await;
        guard.check()?;
    }
    Ok(guard.remaining().min(ttl))
}

async fn supervise(
    child: &mut Child,
    guard: &LockGuard,
    limits: Limits,
    on_lost: OnLost,
    signals: &mut Signals,
) -> Ended {
    let mut stopping: Option<Instant> = None;
    let mut warned = false;
    loop {
        let remaining = guard.remaining();
        let long = if on_lost == OnLost::Warn { FOR_EVER } else { limits.may_work(remaining) };
        if let Err(fault) = child.may_work(long).await {
            child.send(Signal::KILL);
            return Ended::Failed(fault);
        }
        match (on_lost, limits.verdict(remaining), stopping) {
            (_, Verdict::Work, _) => {}
            (OnLost::Warn, ..) => {
                if !std::mem::replace(&mut warned, true) {
                    let key = guard.key().escape_debug();
                    eprintln!("lockctl: the lock `{key}` is not renewed, and the command works on");
                }
            }
            (OnLost::Kill, Verdict::Stop, None) => {
                child.send(Signal::TERM);
                // A command that is stopped could not end.
                child.send(Signal::CONT);
                stopping = Some(Instant::now());
            }
            (OnLost::Kill, Verdict::Stop, Some(since)) if since.elapsed() < limits.grace => {}
            // The rest of the group is killed with it.
            (OnLost::Kill, ..) => {
                child.send(Signal::KILL);
                stopping.get_or_insert_with(Instant::now);
            }
        }
        let pause = if warned { LOOK } else { LOOK.min(remaining / 8).max(Duration::from_millis(5)) };
        tokio::select! {
            biased;
            status = child.ended() => {
                let is_over = on_lost == OnLost::Kill && limits.verdict(guard.remaining()) != Verdict::Work;
                return match status {
                    // Its warden may have come first.
                    Ok(status) if stopping.is_some() || (is_over && status.code().is_none()) => {
                        // Its children, which were given the same time.
                        child.send(Signal::KILL);
                        Ended::Stopped
                    }
                    Ok(status) => Ended::Done(code(status)),
                    Err(error) => {
                        let text = format!("the command was lost: {error}");
                        Ended::Failed(Fault::new(Exit::NOT_EXECUTABLE, text))
                    }
                };
            }
            number = signals.next() => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    child.forward(signal);
                }
            }
            () = sleep(pause) => {}
        }
    }
}
