//! Sweeps the tables: deletes unused rows as fast as they are created.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::types::Type;

use super::connection::{Connection, text};
use super::shared::Shared;
use crate::backend::postgres::error::Failure;
use crate::clock::Clock;

/// The number of keys that a call checks. The number is small, so that a call of the application hardly waits for the
/// sweep.
const KEYS_PER_CALL: i32 = 250;
/// How long one connection sweeps between two heartbeats if at least half of the keys are deleted. A sweep then deletes
/// about ten thousand keys a second.
const AMONG_MANY: Duration = Duration::from_millis(400);
/// How long one connection sweeps if most keys are in use. Checking such a key costs the server some microseconds.
const AMONG_FEW: Duration = Duration::from_millis(50);

impl Shared {
    /// Deletes the unused rows of some keys, if a sweep is due. `to` is the last key of this connection's previous
    /// call. Returns the last checked key. Returns `None` at the end of the table, after a failure, and if no sweep is
    /// due or another process sweeps.
    pub(super) async fn sweep(&self, connection: &Arc<Connection>, mut to: Option<String>) -> Option<String> {
        let began = Clock::Suspend.now();
        loop {
            let swept = timeout(self.config.timeout, self.sweep_some(connection, to)).await;
            let most;
            (to, most) = match swept {
                Ok(Ok(swept)) => swept?,
                // The next sweep continues where this one has stopped, because the server has recorded the position.
                Ok(Err(failure)) => {
                    tracing::debug!(server = %self.address(), ?failure, "the lock tables were not swept");
                    return None;
                }
                Err(_) => return None,
            };
            if to.is_none() || Clock::Suspend.now().since(began) >= if most { AMONG_MANY } else { AMONG_FEW }
            {
                return to;
            }
        }
    }

    /// Makes one call. Returns the last key, and whether at least half of the keys were deleted. Returns `None` if no
    /// sweep is due.
    async fn sweep_some(
        &self,
        connection: &Arc<Connection>,
        to: Option<String>,
    ) -> Result<Option<(Option<String>, bool)>, Failure> {
        let to = to.map_or_else(|| (Box::new(None::<String>) as Box<_>, Type::TEXT), text);
        let parameters = vec![(Box::new(KEYS_PER_CALL) as Box<_>, Type::INT4), to];
        let rows = connection.query(&self.statements.sweep, parameters).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let read = || -> Result<_, tokio_postgres::Error> {
            let (looked, deleted): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
            Ok(Some((row.try_get(0)?, deleted >= looked / 2)))
        };
        read().map_err(|_| Failure::unexpected("another type"))
    }
}
