//! Completes a grant: waits until enough replicas have it, if `durability` requires that, and subscribes to the
//! holder's messages.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use super::server::Server;
use crate::backend::Claim;
use crate::backend::redis::durability::Confirmed;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::primary::{Primary, PrimaryConnection};

/// Sends a command that grants a lock. Also gets the grant confirmed if that needs no extra round trip.
pub(super) async fn send_to_grant(
    connection: &PrimaryConnection,
    command: &Cmd,
    deadline: Duration,
) -> Result<(Value, Confirmed), Failure> {
    match &connection.session {
        None => Ok((connection.send(command).await?, None)),
        // Boxed, because most stores need no copies. Without the box, the future of every call would contain this one.
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
        // Subscribes before the copies are confirmed: from now on the key is locked and may be force-released.
        connection.subscribe_holders(self.shared().shared_listeners());
        if connection.session.is_none() {
            return Ok(grant);
        }
        let confirmed = match confirmed {
            Some(confirmed) => confirmed,
            None => Box::pin(Primary::confirm(connection, deadline)).await,
        };
        let Err(failure) = confirmed else { return Ok(grant) };
        // The grant must be released along with the error. Otherwise the key stays taken while the caller believes that
        // it has no lock.
        match Box::pin(self.release(claim, None)).await {
            Ok(_) => Err(failure.before_any_request()),
            // The error is in doubt, because the grant may still exist. So the library repeats the release.
            Err(_) => Err(failure.in_doubt()),
        }
    }
}
