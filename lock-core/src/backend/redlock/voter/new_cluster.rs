//! Skips the quarantine of a new cluster, after an operator has declared that no locks exist yet. Nothing else skips a
//! quarantine.

use std::sync::Arc;

use ::redis::{Pipeline, Value};

use super::backend::Voter;
use super::boot;
use super::connect::one_server;
use super::options::VoterOptions;
use super::probe;
use super::scripts::MARKER;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{self, Session, Shared, text};
use crate::backend::redis::primary::Primary;
use crate::error::{LockErrorKind, Result};
use crate::runtime::current_runtime;

impl Voter {
    /// Declares that the servers at `urls` are a new cluster, which grants locks at once. Without this call, a new
    /// server votes for the first time after the longest lease, because it looks like a server that lost its data.
    ///
    /// **An operator calls this by hand, once**, before the first client connects. If it is called for a server that
    /// restarted, the protection of the quarantine is lost, and a key may be locked twice.
    ///
    /// # Errors
    ///
    /// The errors of [`connect`](Self::connect). All servers must answer.
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest): a server has keys, so the cluster is not new. In this case no
    /// server was changed.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// This is not cancel safe: some servers may already have a marker. Calling this function again does no harm.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// use std::time::Duration;
    ///
    /// use lock_core::backend::redlock::{Voter, VoterOptions};
    ///
    /// // The same `max_ttl` as in the URL of the services.
    /// let options = VoterOptions::new(Duration::from_secs(30));
    /// let urls = ["redis://10.0.0.1/", "redis://10.0.0.2/", "redis://10.0.0.3/"];
    /// Voter::bootstrap_new_cluster(urls, options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn bootstrap_new_cluster<'a>(
        urls: impl IntoIterator<Item = &'a str>,
        options: VoterOptions,
    ) -> Result<()> {
        current_runtime()?;
        let max_ttl = options.checked()?.max_ttl;
        let configs = urls.into_iter().map(one_server).collect::<Result<Vec<_>>>()?;
        let mut all: Vec<(Arc<Shared<Primary>>, Session<Primary>)> = Vec::new();
        for config in configs {
            // The server is not dialled as a voter: admitting a voter registers the server, and that begins the
            // quarantine.
            let server = Arc::new(Shared::new(config, Primary::alone())?);
            let session = link::first(&server).await?;
            empty(&session).await.map_err(|failure| failure.to_error(server.address()))?;
            all.push((server, session));
        }
        // All servers are checked before the first marker is written, so that a refusal changes no server.
        for (server, session) in all {
            let commands = boot::transaction(crate::backend::redis::units::millis(max_ttl), true);
            let answers = session.live.send_all(&commands).await;
            let outcome = answers.and_then(|answers| boot::read(&answers));
            outcome.map_err(|failure| failure.to_error(server.address()))?;
        }
        Ok(())
    }
}

/// Returns an error if the server contains any key other than the marker.
async fn empty(session: &Session<Primary>) -> Result<(), Failure> {
    let mut commands = Pipeline::with_capacity(3);
    commands.cmd("INFO");
    commands.cmd("DBSIZE");
    commands.cmd("EXISTS").arg(MARKER);
    let answers = session.live.send_all(&commands).await?;
    match answers.as_slice() {
        [info, Value::Int(keys), Value::Int(marker)] => {
            probe::examine(text(info)?)?;
            // A marker may exist from an earlier call that was dropped midway.
            match keys - marker {
                0 => Ok(()),
                others => Err(Failure::new(
                    LockErrorKind::InvalidRequest,
                    format!(
                        "the database has {others} keys, so this is no new cluster, and locks may be held"
                    ),
                )),
            }
        }
        [_, Value::ServerError(error), _] | [_, _, Value::ServerError(error)] => {
            Err(Failure::of_reply(error))
        }
        _ => Err(Failure::unexpected(&Value::Nil)),
    }
}
