//! Completes a grant: subscribes to the holder's messages, and waits for the replicas if `durability` requires copies
//! of the grant.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use super::server::Server;
use crate::backend::Claim;
use crate::backend::redis::durability::Confirmed;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::primary::{Primary, PrimaryConnection};

/// Sends a command that grants a lock. If no other confirmation is in progress, also requests the confirmation of the
/// grant in the same round trip.
pub(super) async fn send_to_grant(
    connection: &PrimaryConnection,
    command: &Cmd,
    deadline: Duration,
) -> Result<(Value, Confirmed), Failure> {
    match &connection.session {
        None => Ok((connection.send(command).await?, None)),
        // This future is boxed, so that the futures of stores without `durability` stay small.
        Some(confirmer) => Box::pin(confirmer.grant(connection, command, deadline)).await,
    }
}

impl Server<Primary> {
    /// Returns the grant if enough replicas have it. Otherwise releases the grant and returns an error.
    pub(super) async fn durable<T>(
        &self,
        connection: &Arc<PrimaryConnection>,
        (claim, grant): (&Claim, T),
        confirmed: Confirmed,
        deadline: Duration,
    ) -> Result<T, Failure> {
        // Subscribes before the confirmation, because the key is already locked and may be force-released.
        connection.subscribe_holders(self.shared().shared_listeners());
        if connection.session.is_none() {
            return Ok(grant);
        }
        let confirmed = match confirmed {
            Some(confirmed) => confirmed,
            None => Box::pin(Primary::confirm(connection, deadline)).await,
        };
        let Err(failure) = confirmed else { return Ok(grant) };
        // Releases the grant before the error is returned. Otherwise the key would stay locked while the caller
        // believes that it has no lock.
        match Box::pin(self.release(claim, None)).await {
            Ok(_) => Err(failure.before_any_request()),
            // The grant may still exist. Because of `in_doubt`, the library repeats the release.
            Err(_) => Err(failure.in_doubt()),
        }
    }
}
