//! Makes fencing tokens on request.

use super::parameter::{number, texts};
use super::release::own_fence;
use super::server::Server;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::text;
use crate::backend::{Claim, FencingToken};
use crate::error::LossReason;

impl Server {
    /// Makes the fencing token of a grant, or returns the reason why this owner has lost the grant.
    pub(crate) async fn fence(&self, claim: &Claim) -> Result<Result<FencingToken, LossReason>, Failure> {
        let owner = claim.owner.token();
        let of = match claim.handoffs {
            0 => owner.as_str().to_owned(),
            turn => format!("{}:{turn}", owner.as_str()),
        };
        let parameters = vec![texts(claim.keys()), text(owner.as_str()), text(of), number(own_fence(claim))];
        let answer = self.answer(&self.shared().statements.fence, parameters).await?;
        match answer.verdict {
            1 => Ok(Ok(answer.fence_of(claim)?)),
            0 => Ok(Err(LossReason::Expired)),
            -1 => Ok(Err(LossReason::Taken)),
            _ => Err(answer.unexpected()),
        }
    }
}
