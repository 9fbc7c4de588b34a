//! Who holds what.

use std::io::IsTerminal;
use std::time::Duration;

use lock_core::LockInfo;
use tokio::time::sleep;

use crate::args::{List, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::signals::Signals;
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

/// Prints how many permits are free.
pub(crate) async fn available(store: &Store, key: &str, permits: u32, json: bool) -> Result<Exit, Fault> {
    let free = store.connect().await?.semaphore(key, permits).available().await?;
    if json {
        out::line(serde_json::json!({ "key": key, "available": free }));
    } else {
        out::line(free);
    }
    Ok(Exit::OK)
}

/// Shows the locks again and again, on a terminal in one picture that changes.
pub(crate) async fn top(store: &Store, every: Duration) -> Result<Exit, Fault> {
    let mut signals = Signals::ending()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let terminal = std::io::stdout().is_terminal();
    if terminal {
        // Another screen, without a cursor.
        out::print(format_args!("\x1b[?1049h\x1b[?25l"));
    }
    let outcome = loop {
        let listed = tokio::select! {
            biased;
            _ = signals.next() => break Ok(Exit::OK),
            listed = locks.locks() => listed,
        };
        let picture = match listed {
            Ok(mut listed) => {
                // Those with the most waiters first.
                listed.locks.sort_by(|a, b| b.waiting.cmp(&a.waiting).then_with(|| a.key.cmp(&b.key)));
                let waiting: usize = listed.locks.iter().map(|lock| lock.waiting).sum();
                let more = if listed.truncated { " or more" } else { "" };
                let head =
                    format!("{} locks{more}, {waiting} waiting, on {}", listed.locks.len(), locks.store());
                format!("{head}\n\n{}", table::table(&listed.locks))
            }
            Err(error) if terminal && error.is_temporary() => format!("{error}\n"),
            Err(error) => break Err(error.into()),
        };
        if terminal {
            out::print(format_args!("\x1b[H\x1b[2J{}", fitted(&picture)));
        } else {
            out::line(picture);
        }
        tokio::select! {
            biased;
            _ = signals.next() => break Ok(Exit::OK),
            () = sleep(every) => {}
        }
    };
    if terminal {
        out::print(format_args!("\x1b[?25h\x1b[?1049l"));
    }
    outcome
}

/// Returns the part of a picture that the terminal has room for.
fn fitted(picture: &str) -> String {
    let (columns, rows) = rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)));
    let lines = picture.lines().take(rows.saturating_sub(1).max(1));
    lines.map(|line| line.chars().take(columns).collect::<String>()).collect::<Vec<_>>().join("\r\n")
}
