//! Confirming grants: with copies, if durability requires them, and with a subscription for their holders.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use super::server::Server;
use crate::backend::Claim;
use crate::backend::redis::durability::Confirmed;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::primary::{Primary, PrimaryConnection};

/// Sends a command that grants a lock, and gets the grant confirmed if that costs no extra round trip.
pub(super) async fn send_to_grant(
    connection: &PrimaryConnection,
    command: &Cmd,
    deadline: Duration,
) -> Result<(Value, Confirmed), Failure> {
    match &connection.session {
        None => Ok((connection.send(command).await?, None)),
        // Boxed, because most stores need no copies, and without the box the future of every call would hold this one.
        Some(confirmer) => Box::pin(confirmer.grant(connection, command, deadline)).await,
    }
}

impl Server<Primary> {
    /// Returns the grant if it has enough copies; otherwise releases it and returns an error.
    pub(super) async fn durable<T>(
        &self,
        connection: &Arc<PrimaryConnection>,
        (claim, grant): (&Claim, T),
        confirmed: Confirmed,
        deadline: Duration,
    ) -> Result<T, Failure> {
        // This comes before the copies are confirmed: the key is locked from now on, and may be released by force.
        connection.subscribe_holders(self.shared().shared_listeners());
        if connection.session.is_none() {
            return Ok(grant);
        }
        let confirmed = match confirmed {
            Some(confirmed) => confirmed,
            None => Box::pin(Primary::confirm(connection, deadline)).await,
        };
        let Err(failure) = confirmed else { return Ok(grant) };
        // The grant must not outlive the error: the caller would believe that it has no lock while the key stays taken.
        match Box::pin(self.release(claim, None)).await {
            Ok(_) => Err(failure.before_any_request()),
            // The error says that there may be a grant, so that the library repeats the release.
            Err(_) => Err(failure.in_doubt()),
        }
    }
}
