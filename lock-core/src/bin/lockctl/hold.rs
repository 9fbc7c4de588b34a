//! Holds a lock until a signal arrives.

use crate::acquire::acquire;
use crate::args::{Lock, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::signals::Signals;

/// Holds the lock until a signal, or until it is lost.
pub(crate) async fn hold(store: &Store, lock: &Lock, json: bool) -> Result<Exit, Fault> {
    let mut signals = Signals::ending()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let guard = acquire(&locks, lock, None, &mut signals, json).await?;
    let token = guard.fencing_token().await.ok().map(|token| token.get());
    if json {
        out::line(serde_json::json!({ "event": "held", "key": guard.key(), "fencing_token": token }));
    } else {
        let token = token.map(|token| format!(", fencing token {token}")).unwrap_or_default();
        out::line(format_args!("holding `{}`{token}; a signal ends it", guard.key().escape_debug()));
    }
    tokio::select! {
        biased;
        _ = signals.next() => {
            guard.release().await?;
            Ok(Exit::OK)
        }
        _ = guard.lost() => Err(guard.check().err().map_or_else(|| Fault::new(Exit::LOST, "the lock was lost"), Fault::from)),
    }
}
