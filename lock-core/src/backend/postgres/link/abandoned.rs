//! Tracks server processes that this process has abandoned because they did not answer.
//!
//! A server process may hang in a commit because its synchronous standby or its disk is gone. Such a process does not
//! notice that its client has disconnected, and no timeout ends it. A store that continued with new connections would
//! leave one more such process every few seconds, until no login succeeds. So a new connection first looks up the
//! abandoned processes, and is not used while too many of them hang. The store sends no cancel request, because a
//! cancelled commit would be valid only on the primary.

use std::sync::Arc;

use tokio_postgres::types::Type;

use super::connection::{Connection, ServerProcess};
use crate::backend::postgres::error::{Failure, Reaction};
use crate::error::LockErrorKind;
use crate::sync::Mutex;

/// Queries the active server processes, and the event that each waits for. The server reuses the number of a process,
/// but never with the same start time.
const ASK: &str = "SELECT a.pid, a.backend_start::text, coalesce(a.wait_event_type, ''), coalesce(a.wait_event, '') \
                   FROM pg_catalog.pg_stat_activity a WHERE a.pid = ANY ($1) AND a.state = 'active'";

/// The wait event of a server process that waits for a synchronous standby.
const STANDBY: &str = "SyncRep";

/// The maximum number of abandoned processes that may still be working while a new connection is used. If any of them
/// waits for a standby, the new connection is not used.
const AT_MOST: usize = 1;

/// The server processes of abandoned connections, which may hang.
#[derive(Debug, Default)]
pub(crate) struct Abandoned(Mutex<Vec<ServerProcess>>);

impl Abandoned {
    /// Records the server process of a connection that is abandoned because it is silent. A session that a pooler
    /// shares has no such process.
    pub(super) fn note(&self, connection: &Connection) {
        let mut all = self.0.lock();
        if let Some(process) = connection.process()
            && !all.contains(process)
        {
            all.push(process.clone());
        }
    }

    /// Looks up the abandoned processes over a new connection. Fails if too many of them still hang.
    pub(super) async fn examine(&self, connection: &Arc<Connection>) -> Result<(), Failure> {
        let asked: Vec<ServerProcess> = self.0.lock().clone();
        if asked.is_empty() {
            return Ok(());
        }
        let pids: Vec<i32> = asked.iter().map(|process| process.pid).collect();
        let rows = connection.query(ASK, vec![(Box::new(pids), Type::INT4_ARRAY)]).await?;
        let mut hanging = Vec::new();
        for row in rows {
            let read = || -> Result<_, tokio_postgres::Error> {
                let process = ServerProcess { pid: row.try_get(0)?, started: row.try_get(1)? };
                Ok((process, row.try_get::<_, String>(2)?, row.try_get::<_, String>(3)?))
            };
            let one = read().map_err(|error| Failure::from_driver(&error))?;
            if asked.contains(&one.0) {
                hanging.push(one);
            }
        }
        let goes_on = |process: &ServerProcess| hanging.iter().any(|(of, ..)| of == process);
        // Keeps processes that were recorded during the request, so that the next connection looks them up.
        self.0.lock().retain(|process| goes_on(process) || !asked.contains(process));
        verdict(&hanging)
    }
}

fn verdict(hanging: &[(ServerProcess, String, String)]) -> Result<(), Failure> {
    if let Some((process, ..)) = hanging.iter().find(|(_, _, event)| event == STANDBY) {
        return Err(Failure::hangs(format!(
            "the server hangs in commits: its process {} waits for a synchronous standby; is one of \
             `synchronous_standby_names` up? No further request is sent until that process has ended",
            process.pid
        )));
    }
    if hanging.len() <= AT_MOST {
        return Ok(());
    }
    let all: Vec<String> =
        hanging.iter().map(|(process, kind, event)| format!("{} ({kind}:{event})", process.pid)).collect();
    Err(Failure::hangs(format!(
        "the server hangs: its processes {} go on with requests that were given up, and what they wait for is in brackets; \
         look at its disk and its synchronous standby. No further request is sent until one of them has ended",
        all.join(", ")
    )))
}

impl Failure {
    fn hangs(text: String) -> Self {
        Self::new(LockErrorKind::Unavailable, text).lasting()
    }

    /// Returns the failure of a silent connection.
    pub(super) fn silent() -> Self {
        let text = "the server stopped answering";
        Self::new(LockErrorKind::Unavailable, text).with_reaction(Reaction::Abandon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_used_unless_too_many_hang() {
        let one = |pid, kind: &str, event: &str| {
            (ServerProcess { pid, started: "now".to_owned() }, kind.to_owned(), event.to_owned())
        };
        let (disk, standby) = (one(7, "IO", "WALSync"), one(8, "IPC", STANDBY));
        verdict(&[]).expect("nothing hangs");
        verdict(std::slice::from_ref(&disk)).expect("a second one finds out");
        for (hanging, expected) in [
            (vec![standby.clone()], "its process 8 waits for a synchronous standby"),
            (vec![disk.clone(), standby], "its process 8 waits for a synchronous standby"),
            (vec![disk.clone(), one(9, "IO", "WALWrite")], "7 (IO:WALSync), 9 (IO:WALWrite)"),
        ] {
            let failure = verdict(&hanging).expect_err(expected);
            assert!(failure.text().contains(expected), "{failure:?}");
            assert!(failure.ends_waits() && failure.error_of("postgres").is_temporary(), "{failure:?}");
        }
    }
}
