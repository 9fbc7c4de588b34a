//! Fencing tokens on demand.

use super::acquire::{FenceOf, fence_ttl};
use super::answer::{fence, verdict};
use super::client::{Redis, millis};
use super::error::Failure;
use super::scripts::Script;
use crate::backend::{Claim, FencingToken, Mode};
use crate::clock::Clock;
use crate::error::LossReason;

impl Redis {
    /// Makes the fencing token of a grant, or tells why the grant is not this owner's.
    pub(super) async fn make_fence(
        &self,
        claim: &Claim,
    ) -> Result<Result<FencingToken, LossReason>, Failure> {
        let live = self.links.live().await?;
        let token = claim.owner.token();
        let keys = claim.keys().count();
        let bytes: usize = claim.keys().map(|key| key.as_str().len() + 8).sum();
        let mut command = live.scripts.call(Script::Fence, keys, keys + 5, bytes + 180);
        for key in claim.keys() {
            command.arg(key.as_str());
        }
        command.arg(token.as_str()).arg(millis(fence_ttl(claim.ttl))).arg(FenceOf(claim).to_string());
        command.arg(claim.own_fence().map_or(0, FencingToken::get));
        if claim.mode != Mode::Exclusive {
            command.arg(claim.record.to_value(&token));
        }
        let sent = Clock::Suspend.now();
        let answer = live.run(Script::Fence, &command).await?;
        let (verdict, now, rest) = verdict(&answer)?;
        live.clock.learn(now, sent, Clock::Suspend.now());
        match (verdict, rest) {
            (1, [number, ..]) => fence(claim, now, number).map(Ok),
            (0, _) => Ok(Err(LossReason::Expired)),
            (-1, _) => Ok(Err(LossReason::Taken)),
            _ => Err(Failure::unexpected(&answer)),
        }
    }
}
