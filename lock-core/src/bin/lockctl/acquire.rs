//! Waits for a lock.

use std::time::Duration;

use lock_core::{LockGuard, LockManager, LockRequest, strategy};

use crate::args::Lock;
use crate::exit::{Exit, Fault};
use crate::progress::Progress;
use crate::signals::Signals;

/// Acquires the lock of the command line. A signal ends the wait.
pub(crate) async fn acquire(
    locks: &LockManager,
    lock: &Lock,
    label: Option<String>,
    signals: &mut Signals,
    json: bool,
) -> Result<LockGuard, Fault> {
    let request = request(locks, lock, label);
    waiting(locks, &lock.key, request.acquire(), signals, json).await
}

/// Waits for an acquisition, and shows the wait. A signal ends the wait.
pub(crate) async fn waiting<T>(
    locks: &LockManager,
    key: &str,
    acquisition: impl Future<Output = lock_core::Result<T>>,
    signals: &mut Signals,
    json: bool,
) -> Result<T, Fault> {
    tokio::select! {
        biased;
        acquired = acquisition => Ok(acquired?),
        number = signals.next() => Err(ended(key, number)),
        never = Progress::new(locks, key, json).show() => match never {},
    }
}

/// Returns the error of a wait that a signal has ended.
pub(crate) fn ended(key: &str, signal: i32) -> Fault {
    Fault::new(
        Exit::of_signal(signal),
        format!("signal {signal} ended the wait for `{}`", key.escape_debug()),
    )
}

fn request(locks: &LockManager, lock: &Lock, label: Option<String>) -> LockRequest {
    let key = lock.key.as_str();
    let mut request = match (lock.permits, lock.shared, lock.fair) {
        (Some(permits), ..) => locks.semaphore(key, permits),
        (None, true, _) => locks.read(key),
        (None, false, true) => locks.fair(key),
        (None, false, false) => locks.lock(key),
    };
    request = patient(request, lock.no_wait, lock.wait);
    request = request.ttl(lock.ttl).renew(!lock.no_renew);
    if let Some(min) = lock.min_hold {
        request = request.min_hold(min);
    }
    if let Some(max) = lock.max_hold {
        request = request.max_hold(max);
    }
    match lock.label.clone().or(label) {
        Some(label) => request.label(label),
        None => request,
    }
}

/// Sets how long a request waits, from the options of the command line.
pub(crate) fn patient(request: LockRequest, no_wait: bool, limit: Option<Duration>) -> LockRequest {
    match (no_wait, limit) {
        (true, _) => request.strategy(strategy::fail_fast()),
        (false, Some(limit)) => request.strategy(strategy::retry()).wait(limit),
        (false, None) => request.strategy(strategy::wait()),
    }
}
