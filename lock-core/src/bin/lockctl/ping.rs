//! Checks whether the store serves locks.

use crate::args::Store;
use crate::exit::{Exit, Fault};
use crate::out;

/// Pings the store, and prints its answer. If the store is degraded but serves locks, prints the reasons. In this case
/// the exit code is 0, because locks work.
pub(crate) async fn ping(store: &Store, json: bool) -> Result<Exit, Fault> {
    let locks = store.connect().await?;
    let ping = locks.ping().await?;
    if json {
        let mut answer = serde_json::json!(ping);
        answer["store"] = locks.store().into();
        out::line(answer);
    } else {
        out::line(format_args!("{}: {ping}", locks.store()));
    }
    Ok(Exit::OK)
}
