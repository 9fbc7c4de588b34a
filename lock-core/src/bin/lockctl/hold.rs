//! Holds a lock until a signal arrives.

use crate::acquire::acquire;
use crate::args::{Lock, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::signals::Signals;
use crate::supervise::found_lost;

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
            let what = format!("the lock `{}`", guard.key().escape_debug());
            let release = guard.release().await;
            if let Some(why) = found_lost(&release) {
                let text = format!("{what} was lost before the signal, and another one may have held it: {why}");
                return Err(Fault::new(Exit::LOST, text));
            }
            release?;
            Ok(Exit::OK)
        }
        _ = guard.lost() => Err(guard.check().err().map_or_else(|| Fault::new(Exit::LOST, "the lock was lost"), Fault::from)),
    }
}
