//! Waits until a key is free.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::acquire::ended;
use crate::args::{Store, Wait};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::progress::Progress;
use crate::signals::Signals;

/// The pause between two checks of the key.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until the key has no holder. Does not acquire the lock: another process may hold it a moment later.
pub(crate) async fn wait(store: &Store, options: &Wait, json: bool) -> Result<Exit, Fault> {
    let mut signals = Signals::ending()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let end = options.wait.map(|limit| Instant::now() + limit);
    let free = async {
        while locks.is_locked(options.key.as_str()).await? {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                let text = format!("`{}` was not free in time", options.key.escape_debug());
                return Err(Fault::new(Exit::CONTENDED, text));
            }
            sleep(left.unwrap_or(LOOK).min(LOOK)).await;
        }
        if json {
            out::line(serde_json::json!({ "key": options.key, "free": true }));
        }
        Ok(Exit::OK)
    };
    tokio::select! {
        biased;
        done = free => done,
        number = signals.next() => Err(ended(&options.key, number)),
        never = Progress::new(&locks, &options.key, json).show() => match never {},
    }
}
