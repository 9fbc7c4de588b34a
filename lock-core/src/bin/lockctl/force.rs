//! Releases a lock by force.

use std::io::{BufRead, IsTerminal, Write};

use lock_core::{GrantId, LockInfo};

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
    if json {
        out::line(serde_json::json!({ "key": key, "id": id.as_str(), "released": done }));
    } else if done {
        out::line(format_args!("released `{}`; its holder is told", key.escape_debug()));
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

/// Shows the lock, and returns whether the person has typed its key.
fn confirmed(lock: &LockInfo, id: &GrantId) -> Result<bool, Fault> {
    if !std::io::stdin().is_terminal() {
        return Err(Fault::usage("there is no terminal to ask on: add --yes"));
    }
    eprint!("{}", table::table(std::slice::from_ref(lock)));
    eprintln!("\nIts holder is told, and may work on until it is. Another one can hold the key at once.");
    eprint!("To release the grant {id}, type the key: ");
    let _ = std::io::stderr().flush();
    let mut typed = String::new();
    std::io::stdin().lock().read_line(&mut typed).map_err(|error| Fault::usage(error.to_string()))?;
    Ok(typed.trim_end_matches(['\r', '\n']) == lock.key)
}
