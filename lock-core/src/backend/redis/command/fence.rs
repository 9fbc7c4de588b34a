//! Makes fencing tokens on request.

use super::acquire::{fence_of, fence_ttl};
use super::release::needs_value;
use super::reply::fence as read_fence;
use super::server::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::Role;
use crate::backend::redis::scripts::Script;
use crate::backend::redis::units::millis;
use crate::backend::{Claim, FencingToken};
use crate::error::LossReason;
use crate::key::Key;

impl<R: Role> Server<R> {
    /// Makes the fencing token of a grant, or returns the reason why this owner has lost the grant.
    pub(crate) async fn fence(&self, claim: &Claim) -> Result<Result<FencingToken, LossReason>, Failure> {
        let own = claim.own_fence().map_or(0, FencingToken::get);
        self.fence_above(claim, own, &fence_of(claim)).await
    }

    /// Makes a fencing token that is larger than `own`. A repeated request with the same `of` returns the same token.
    pub(crate) async fn fence_above(
        &self,
        claim: &Claim,
        own: u64,
        of: &str,
    ) -> Result<Result<FencingToken, LossReason>, Failure> {
        let live = self.connections.get().await?;
        let token = claim.owner.token();
        let mut command = live.scripts.call(Script::Fence, claim.keys().map(Key::as_str), 5, 180);
        command.arg(token.as_str()).arg(millis(fence_ttl(claim.ttl))).arg(of).arg(own);
        // The script finds a shared grant by its whole value. A downgrade whose answer was lost may have made this
        // grant shared.
        if needs_value(claim) {
            command.arg(claim.record.to_value(&token));
        }
        let reply = live.call(Script::Fence, &command).await?;
        match (reply.verdict, reply.rest()) {
            (1, [number, ..]) => {
                let token = read_fence(claim, reply.now, number)?;
                // If no replica has the token, the next primary might issue a smaller token to the next holder. The
                // caller may repeat the request after this error, because it then gets the same token.
                R::confirm(&live, self.deadline(claim.ttl)).await.map_err(Failure::in_doubt)?;
                Ok(Ok(token))
            }
            (0, _) => Ok(Err(LossReason::Expired)),
            (-1, _) => Ok(Err(LossReason::Taken)),
            _ => Err(reply.unexpected()),
        }
    }
}
