//! Checks that a pooler keeps a server connection for each client (`pooling=session`).
//!
//! A pooler does not reveal its mode, and the store must not change a session that is shared. So two plain clients take
//! turns to query which server process serves them. A pooler in session mode serves each client with its own process,
//! which never changes. A pooler that shares its connections serves both clients with the same process, or one client
//! with several processes.
//!
//! The check runs only with the option. In rare cases it does not notice that a pooler shares its connections, so it
//! can only confirm what the user has asserted. A wrong result would leave settings and locks in the sessions of other
//! clients.

use std::time::Duration;

use tokio::time::timeout;

use super::dial::{Goal, dial};
use super::session::Session;
use super::shared::Shared;
use crate::backend::postgres::error::Failure;
use crate::backend::remote::tries;
use crate::error::LockErrorKind;

/// The number of queries of each client. If a busy pooler assigns two connections at random, the check wrongly succeeds
/// about once in 30,000 times.
const ROUNDS: usize = 8;

const ASK: &str = "SELECT pg_catalog.pg_backend_pid()";

impl Shared {
    /// If the settings name session pooling, checks that each client has a server connection for itself.
    pub(crate) async fn prove_session_pooling(&self) -> Result<(), Failure> {
        if !self.config.session_pooling {
            return Ok(());
        }
        tries::connect(self.address(), self.config.connect_timeout, |left| Box::pin(self.prove(left))).await
    }

    async fn prove(&self, limit: Duration) -> Result<(), Failure> {
        let clients = [dial(self, Goal::Bare, limit).await?, self.second_client(limit).await?];
        let mut seen = Vec::new();
        for _ in 0..ROUNDS {
            seen.push([process(&clients[0]).await?, process(&clients[1]).await?]);
        }
        verdict(&seen)
    }

    async fn second_client(&self, limit: Duration) -> Result<Session, Failure> {
        // A pooler without a free connection to the server makes the client wait for one.
        timeout(limit / 2, dial(self, Goal::Bare, limit)).await.unwrap_or_else(|_| Err(too_few()))
    }
}

async fn process(session: &Session) -> Result<i32, Failure> {
    let rows = session.live.query(ASK, Vec::new()).await?;
    rows.first().and_then(|row| row.try_get(0).ok()).ok_or_else(|| Failure::unexpected("no process"))
}

fn too_few() -> Failure {
    let text = "the pooler has no connection to the server for a second client; a store needs one for each runtime that takes \
                locks, one for renewals and one that listens: raise `default_pool_size`";
    Failure::new(LockErrorKind::Unavailable, text)
}

/// Decides which mode the pooler has, from the server processes that served the two clients in each round.
fn verdict(seen: &[[i32; 2]]) -> Result<(), Failure> {
    let Some(&[one, other]) = seen.first() else { return Ok(()) };
    let changed = seen.iter().find(|round| **round != [one, other]);
    let what = match changed {
        _ if one == other => format!("process {one} of the server served two clients"),
        Some([later, _]) if *later != one => {
            format!("processes {one} and {later} of the server served one client")
        }
        Some([_, later]) => format!("processes {other} and {later} of the server served one client"),
        None => return Ok(()),
    };
    let text = format!(
        "`pooling=session` is set, and the pooler shares its connections among clients: {what}; set `pool_mode = session` for \
         this database in the pooler, or remove `pooling=session`"
    );
    Err(Failure::new(LockErrorKind::Unsupported, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_process_of_its_own() {
        verdict(&[[1, 2], [1, 2], [1, 2]]).expect("session pooling");
        for (seen, expected) in [
            ([[1, 1], [1, 1]], "process 1 of the server served two clients"),
            ([[1, 2], [3, 2]], "processes 1 and 3 of the server served one client"),
            ([[1, 2], [1, 3]], "processes 2 and 3 of the server served one client"),
            ([[1, 2], [2, 1]], "processes 1 and 2 of the server served one client"),
        ] {
            let failure = verdict(&seen).expect_err(expected);
            assert!(failure.text().contains(expected) && failure.is_permanent(), "{failure:?}");
        }
    }
}
