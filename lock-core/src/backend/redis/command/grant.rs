//! Grants that count: with copies where locks need them, and with a subscription for their holders.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use super::server::Server;
use crate::backend::Claim;
use crate::backend::redis::durability::Confirmed;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::primary::{Primary, PrimaryConnection};

/// Sends a command that grants, and has the grant confirmed where that costs no round trip of its own.
pub(super) async fn send_to_grant(
    connection: &PrimaryConnection,
    command: &Cmd,
    deadline: Duration,
) -> Result<(Value, Confirmed), Failure> {
    match &connection.session {
        None => Ok((connection.send(command).await?, None)),
        // Boxed: most stores have no copies, and every call would have room for this.
        Some(confirmer) => Box::pin(confirmer.grant(connection, command, deadline)).await,
    }
}

impl Server<Primary> {
    /// Hands out a grant that has enough copies, and gives back one that has not.
    pub(super) async fn durable<T>(
        &self,
        connection: &Arc<PrimaryConnection>,
        (claim, grant): (&Claim, T),
        confirmed: Confirmed,
        deadline: Duration,
    ) -> Result<T, Failure> {
        connection.subscribe_holders(self.shared().shared_listeners());
        if connection.session.is_none() {
            return Ok(grant);
        }
        let confirmed = match confirmed {
            Some(confirmed) => confirmed,
            None => Box::pin(Primary::confirm(connection, deadline)).await,
        };
        let Err(failure) = confirmed else { return Ok(grant) };
        match Box::pin(self.release(claim, None)).await {
            Ok(_) => Err(failure.before_any_request()),
            // The library is told that there may be a grant, and repeats the release.
            Err(_) => Err(failure.in_doubt()),
        }
    }
}
