//! Shows the leader of a name, or runs a command as the leader.

use crate::acquire::ended;
use crate::args::{Leader, Store};
use crate::exit::{Exit, Fault};
use crate::out;
use crate::signals::Signals;
use crate::supervise::{is_over, under, whole_lease};
use crate::table;

/// Shows the leader, or runs a command while this process is the leader.
pub(crate) async fn leader(store: &Store, options: Leader, json: bool) -> Result<Exit, Fault> {
    let mut signals = Signals::forwarded()?;
    let locks = signals.unless_ended(store.connect()).await?;
    let mut election = locks.leader(options.name.as_str()).ttl(options.ttl);
    if let Some(label) = &options.label {
        election = election.label(label.clone());
    }
    if options.command.is_empty() {
        let found = election.current().await?;
        return Ok(show(&options.name, found.as_ref(), json));
    }
    let leadership = loop {
        let won = tokio::select! {
            biased;
            won = election.campaign() => won?,
            number = signals.next() => return Err(ended(&options.name, number)),
        };
        // If this process lost the lead before the lease was renewed, no command has started. So it is a candidate
        // again.
        match signals.unless_ended(whole_lease(won.guard(), options.ttl)).await {
            Err(_) if is_over(won.guard()) => drop(won.resign().await),
            Err(fault) => return Err(fault),
            Ok(_) => break won,
        }
    };
    let ended =
        under(leadership.guard(), options.ttl, &options.end, &options.command, &[], &mut signals).await;
    let what = format!("the lead of `{}`", options.name.escape_debug());
    let loss = leadership.check().err();
    ended.exit(&what, options.end.on_lost, loss, leadership.resign().await)
}

fn show(name: &str, found: Option<&lock_core::leader::Leader>, json: bool) -> Exit {
    if json {
        let leader = found.map(|leader| {
            serde_json::json!({ "id": leader.id.as_str(), "owner": leader.to_string(), "remaining_ms": leader.remaining.map(table::millis) })
        });
        out::line(serde_json::json!({ "name": name, "leader": leader }));
    } else if let Some(leader) = found {
        out::line(leader);
    } else {
        out::line(format_args!("`{}` has no leader", name.escape_debug()));
    }
    if found.is_some() { Exit::OK } else { Exit::NO }
}
