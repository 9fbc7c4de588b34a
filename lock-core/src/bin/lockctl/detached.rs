//! Acquires, renews and releases a lock that outlives `lockctl`. Such a lock belongs to the process that has its token.

use std::time::Duration;

use lock_core::Released;

use crate::acquire::{patient, waiting};
use crate::args::{Acquire, Detached, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::signals::Signals;
use crate::table;

/// After an acquisition was given up, a grant may still arrive. This is the time limit for its arrival and its release.
const GIVES_BACK: Duration = Duration::from_secs(2);

/// Acquires a lock and prints its token. Releases the lock if the token cannot be printed.
pub(crate) async fn acquire(store: &Store, options: &Acquire, json: bool) -> Result<Exit, Fault> {
    let mut signals = Signals::ending()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let mut request = locks.lock(options.key.as_str()).ttl(options.ttl);
    request = patient(request, options.no_wait, options.wait);
    if let Some(label) = &options.label {
        request = request.label(label.clone());
    }
    let acquired = waiting(&locks, &options.key, request.acquire_detached(), &mut signals, json).await;
    let Ok(lock) = acquired else {
        // The store may still grant the request. The shutdown releases such a lock, because its token was never
        // printed.
        locks.shutdown(GIVES_BACK).await;
        return acquired.map(|_| Exit::OK);
    };
    let text = if json {
        let fence = lock.fencing_token().await.ok().map(|token| token.get());
        let token = lock.token();
        serde_json::json!({ "key": lock.key(), "token": token.as_str(), "fencing_token": fence }).to_string()
    } else {
        lock.token().as_str().to_owned()
    };
    if !out::is_read(format_args!("{text}\n")) {
        lock.release().await?;
        return Ok(Exit::UNREAD);
    }
    Ok(Exit::OK)
}

/// Renews the lock to which a token belongs.
pub(crate) async fn renew(store: &Store, lock: &Detached, ttl: Duration, json: bool) -> Result<Exit, Fault> {
    let locks = store.connect().await?;
    let remaining = locks.detached(lock.key.as_str(), &lock.token)?.renew(ttl).await?;
    if json {
        out::line(serde_json::json!({ "key": lock.key, "remaining_ms": table::millis(remaining) }));
    }
    Ok(Exit::OK)
}

/// Releases the lock to which a token belongs.
pub(crate) async fn release(store: &Store, lock: &Detached, json: bool) -> Result<Exit, Fault> {
    let locks = store.connect().await?;
    let released = locks.detached(lock.key.as_str(), &lock.token)?.release().await?;
    if released != Released::Released {
        let key = lock.key.escape_debug();
        return Err(Fault::new(Exit::NO, format!("the lock `{key}` of this token had ended before")));
    }
    if json {
        out::line(serde_json::json!({ "key": lock.key, "released": true }));
    }
    Ok(Exit::OK)
}
