//! Makes fencing tokens.
//!
//! A token is the transaction number of a change in the store. Every later change has a larger number. The number of a
//! node's creation is the token of its holder only if the holder has had the key since that creation. The number of a
//! waiter's node is smaller than the tokens of the holders before it. So when a waiter is served, its token is the
//! number of a change that it makes as the holder.

use zookeeper_client::Error;

use super::error::Failure;
use super::places::Site;
use crate::backend::FencingToken;

/// Returns the token of a holder whose node was created by the change `created`, or `None` if a node was created or
/// deleted after that change. `changed` is the last change of the directory that the claim has read. If the directory
/// changed after `created`, an earlier holder may have a larger token.
pub(super) fn at_birth(created: i64, changed: i64) -> Option<FencingToken> {
    (created == changed && created > 0).then(|| FencingToken::new(created.cast_unsigned()))
}

impl Site<'_> {
    /// Returns the claim's fencing token; `None` if the claim is not granted.
    pub(super) async fn fence(&self) -> Result<Option<FencingToken>, Failure> {
        let handoffs = self.claim.handoffs;
        loop {
            let known = |made| self.session.with(|grants| grants.fence(&[&self.prefix], handoffs, made));
            if let Some(token) = known(None)? {
                return Ok(Some(token));
            }
            let entry = self.entry()?;
            let Some(node) = entry.filter(|entry| entry.is_granted()).and_then(|entry| entry.node) else {
                return Ok(None);
            };
            match self.touch(&node).await {
                // The node still existed, so the claim held the key at the time of this change.
                Ok(stat) => return known(Some(FencingToken::new(stat.mzxid.cast_unsigned()))),
                Err(Error::NoNode) => {
                    // A downgrade has renamed the node, or another process has deleted it.
                    match self.look_for_own(None, false).await {
                        Ok((_, Some(node))) => {
                            self.session.with(|grants| grants.has_node(&self.prefix, &node))?
                        }
                        Ok((_, None)) => return Ok(None),
                        Err(error) => self.session.recover(error.into()).await?,
                    }
                }
                Err(error) => self.session.recover(error.into()).await?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_saw_another_leave_is_no_token() {
        for (created, changed, token) in [
            (7, 7, Some(7)),
            // The previous holder made a token by change 8, and released the key by change 9.
            (7, 9, None),
            // These servers do not report the numbers of the changes.
            (0, 0, None),
            (-1, -1, None),
        ] {
            assert_eq!(at_birth(created, changed).map(FencingToken::get), token, "{created} {changed}");
        }
    }
}
