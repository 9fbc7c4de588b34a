//! Fencing tokens on demand.

use super::acquire::{FenceOf, fence_ttl};
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
    /// Makes the fencing token of a grant, or tells why the grant is not this owner's.
    pub(crate) async fn fence(&self, claim: &Claim) -> Result<Result<FencingToken, LossReason>, Failure> {
        let own = claim.own_fence().map_or(0, FencingToken::get);
        self.fence_above(claim, own, &FenceOf(claim).to_string()).await
    }

    /// Makes one that is larger than `own`; the same once more for whoever asks again as `of`.
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
        if needs_value(claim) {
            command.arg(claim.record.to_value(&token));
        }
        let reply = live.call(Script::Fence, &command).await?;
        match (reply.verdict, reply.rest()) {
            (1, [number, ..]) => {
                let token = read_fence(claim, reply.now, number)?;
                // Else the next primary may give a smaller one to the next holder. Asked again, it is the same one.
                R::confirm(&live, self.deadline(claim.ttl)).await.map_err(Failure::in_doubt)?;
                Ok(Ok(token))
            }
            (0, _) => Ok(Err(LossReason::Expired)),
            (-1, _) => Ok(Err(LossReason::Taken)),
            _ => Err(reply.unexpected()),
        }
    }
}
