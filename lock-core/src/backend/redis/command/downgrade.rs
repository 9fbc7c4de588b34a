//! Turns an exclusive lock into a shared one.

use std::iter;

use super::reply::count;
use super::server::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::scripts::Script;
use crate::backend::redis::units::millis;
use crate::backend::{Claim, Renewal};

impl<R: Role> Server<R> {
    /// Turns the exclusive grant of a claim of one key into a shared one.
    pub(crate) async fn downgrade(&self, claim: &Claim) -> Result<Renewal, Failure> {
        let live = self.connections.get().await?;
        let (key, token) = (claim.key.as_str(), claim.owner.token());
        let value = claim.record.to_value(&token);
        let mut command = live.scripts.call(Script::Downgrade, iter::once(key), 3, value.len() + 80);
        command.arg(token.as_str()).arg(&value).arg(millis(claim.ttl));
        // The claim is marked before the answer arrives, because the answer may be lost. From now on, requests must
        // also contain the stored value.
        claim.mark_shared();
        let reply = live.call(Script::Downgrade, &command).await?;
        match (reply.verdict, reply.rest()) {
            (1, [waiters, ..]) => {
                // The downgrade extends the lease, so the replicas must confirm it like a renewal.
                R::confirm(&live, self.deadline(claim.ttl)).await.map_err(Failure::in_doubt)?;
                Ok(Renewal::Renewed { sent: reply.sent, lease: claim.ttl, waiters: Some(count(waiters)?) })
            }
            (0, _) => Ok(Renewal::NotOwned),
            _ => Err(reply.unexpected()),
        }
    }
}
