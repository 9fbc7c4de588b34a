//! Shows the locks that are held, and the free permits of a semaphore.

use lock_core::LockInfo;

use crate::args::{List, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::table;

/// Lists the locks that are held.
pub(crate) async fn list(store: &Store, options: &List, json: bool) -> Result<Exit, Fault> {
    let listed = store.connect().await?.locks_matching(&options.prefix).await?;
    let is_old = |lock: &LockInfo| {
        options.older.is_none_or(|older| lock.holders.iter().filter_map(table::age).any(|age| age > older))
    };
    let locks: Vec<LockInfo> = listed.locks.into_iter().filter(is_old).collect();
    if json {
        locks.iter().for_each(|lock| out::line(table::json(lock)));
    } else {
        out::print(table::table(&locks));
    }
    if listed.truncated {
        eprintln!("lockctl: there are more locks; give a longer prefix");
    }
    Ok(Exit::OK)
}

/// Shows one key.
pub(crate) async fn show(store: &Store, key: &str, json: bool) -> Result<Exit, Fault> {
    let Some(lock) = store.connect().await?.inspect(key).await? else {
        if json {
            out::line(serde_json::json!({ "key": key, "holding": 0, "holders": [] }));
        } else {
            out::line(format_args!("`{}` is free", key.escape_debug()));
        }
        return Ok(Exit::NO);
    };
    if json {
        out::line(table::json(&lock));
        return Ok(Exit::OK);
    }
    out::print(table::table(std::slice::from_ref(&lock)));
    if lock.holding > lock.holders.len() {
        out::line(format_args!("and {} more holders", lock.holding - lock.holders.len()));
    }
    for (at, waiter) in lock.waiters.iter().enumerate() {
        let who = waiter.record.as_ref().map_or_else(|| "another program".to_owned(), ToString::to_string);
        out::line(format_args!("waiting {}: {who} ({})", at + 1, table::mode(waiter.mode)));
    }
    Ok(Exit::OK)
}

/// Prints the number of free permits.
pub(crate) async fn available(store: &Store, key: &str, permits: u32, json: bool) -> Result<Exit, Fault> {
    let free = store.connect().await?.semaphore(key, permits).available().await?;
    if json {
        out::line(serde_json::json!({ "key": key, "available": free }));
    } else {
        out::line(free);
    }
    Ok(Exit::OK)
}
