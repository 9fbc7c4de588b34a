//! Releases a lock by force.

use std::io::{BufRead, IsTerminal, Write};

use lock_core::{GrantId, HolderInfo, LockInfo};

use crate::args::{ForceRelease, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::table;

/// Releases a lock by force. Without `--yes`, first shows the lock, and lets the person type its key.
pub(crate) async fn force_release(store: &Store, options: &ForceRelease, json: bool) -> Result<Exit, Fault> {
    let locks = store.connect().await?;
    let key = options.key.as_str();
    let Some(lock) = locks.inspect(key).await? else {
        return Err(Fault::new(
            Exit::NO,
            format!("`{}` is free: there is nothing to release", key.escape_debug()),
        ));
    };
    let id = chosen(&lock, options.id.as_deref())?;
    if !options.yes && !confirmed(&lock, &id)? {
        return Err(Fault::new(Exit::NO, "nothing was released: the key was not typed"));
    }
    let done = locks.force_release(key, &id, &options.reason).await?;
    let holder = lock.holders.iter().find(|holder| holder.id == id);
    if json {
        out::line(serde_json::json!({ "key": key, "id": id.as_str(), "released": done }));
    } else if done {
        out::line(format_args!("released `{}`; {}", key.escape_debug(), who_learns(holder)));
    } else {
        out::line(format_args!("the grant {id} was gone; nothing was released"));
    }
    Ok(if done { Exit::OK } else { Exit::NO })
}

/// Returns the grant to release. This is the grant that the command line names, or the only grant of the lock.
fn chosen(lock: &LockInfo, id: Option<&str>) -> Result<GrantId, Fault> {
    match (id, &lock.holders[..]) {
        (Some(id), _) => Ok(id.parse()?),
        (None, [only]) => Ok(only.id.clone()),
        (None, holders) => {
            let text = format!(
                "`{}` has {} holders: choose one with --id\n{}",
                lock.key,
                holders.len(),
                table::table(std::slice::from_ref(lock))
            );
            Err(Fault::usage(text))
        }
    }
}

/// Says whether the holder of a grant that is released by force learns of it. `holder` is `None` if the store did not list
/// this holder.
fn who_learns(holder: Option<&HolderInfo>) -> &'static str {
    match holder {
        Some(holder) if holder.kept => "no holder is left to tell: it was only kept locked by `min_hold`",
        Some(HolderInfo { record: None, .. }) => "its holder is not told: it uses another library",
        _ => "its holder is told if it still runs",
    }
}

/// Shows the lock, and returns whether the person has typed its key.
fn confirmed(lock: &LockInfo, id: &GrantId) -> Result<bool, Fault> {
    if !std::io::stdin().is_terminal() {
        return Err(Fault::usage("there is no terminal to ask on: add --yes"));
    }
    eprint!("{}", table::table(std::slice::from_ref(lock)));
    let holder = lock.holders.iter().find(|holder| holder.id == *id);
    eprintln!("\nIf you go on, {}.", who_learns(holder));
    eprintln!("A holder may work on until it notices the loss, and another one can hold the key at once.");
    eprint!("To release the grant {id}, type the key: ");
    let _ = std::io::stderr().flush();
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed).map_err(|error| Fault::usage(error.to_string()))?;
    Ok(typed.trim_end_matches(['\r', '\n']) == lock.key)
}
