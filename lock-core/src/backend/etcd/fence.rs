//! Makes fencing tokens. A token consists of the revision of the transaction that made an entry the holder, and of the
//! number of hand-offs since then.
//!
//! The whole cluster has one revision, which only grows. The transaction that makes an entry the holder runs while no
//! earlier owner holds the key. The revision at which the entry was created is not enough. A claim of several keys
//! needs one number that is larger than the tokens of all earlier holders of its keys, and smaller than the tokens of
//! all queued claims.
//!
//! The last [`BITS`] bits count the hand-offs inside a process, so no token has to be stored. When a grant has used up
//! these bits, its holder writes the entries again, and the tokens continue from the revision of that write.

use super::entries::Since;
use super::error::Failure;
use super::store::Store;
use crate::backend::{Claim, FencingToken};
use crate::error::LossReason;

/// The number of bits that count hand-offs. The other 43 bits are the revision. They are enough for 28 years with
/// 10,000 writes a second.
const BITS: u32 = 20;

/// Returns the token of a holder whose tokens are counted from the revision in `since`, or `None` if the grant was
/// handed off too often.
pub(super) fn token(claim: &Claim, since: Since) -> Option<FencingToken> {
    let revision = u64::try_from(since.revision).ok()?;
    let first = revision.checked_mul(1 << BITS)?;
    let handoffs = claim.handoffs.checked_sub(since.handoffs)?;
    // This skips the numbers that the process has already assigned.
    let number = first.max(claim.own_fence().map_or(0, FencingToken::get)).checked_add(handoffs)?;
    (number >> BITS == revision).then(|| FencingToken::new(number))
}

impl Store {
    /// Returns the fencing token of the grant of `claim`, or the reason for which the grant is lost.
    pub(super) async fn fence(&self, claim: &Claim) -> Result<Result<FencingToken, LossReason>, Failure> {
        let ids = Self::ids(claim);
        loop {
            let lines = self.read_all(claim.keys()).await?;
            let Some(mine) = self.held_in(claim, &ids, &lines) else { return Ok(Err(LossReason::Taken)) };
            let before: Option<Vec<Since>> = mine.iter().map(|mine| mine.since).collect();
            let since = before.and_then(|all| all.into_iter().max_by_key(|since| since.revision));
            if let Some(token) = since.and_then(|since| token(claim, since)) {
                return Ok(Ok(token));
            }
            // The grant belongs to a reader or a permit that has waited, or it was handed off a million times. So the
            // entries are written again while the claim holds the keys. The revision of that write is larger than all
            // earlier revisions, and no other grant of these keys has it.
            let Some(revision) = self.touch(&ids, &mine).await? else { continue };
            let mut made = Since { revision, handoffs: if since.is_some() { claim.handoffs } else { 0 } };
            for (id, before) in ids.iter().zip(&mine) {
                self.entries.change(id, |mine| {
                    // A concurrent call may have set the revision.
                    made = if mine.since == before.since { made } else { mine.since.unwrap_or(made) };
                    mine.since = Some(made);
                });
            }
            if let Some(token) = token(claim, made) {
                return Ok(Ok(token));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::key::Key;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    #[test]
    fn tokens_grow_with_the_revision_and_with_every_hand_off() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Identity::of_this_process("").into(), None);
        let mut claim = Claim::new(Key::new("k").expect("a key"), owner, Duration::from_secs(5), record);
        let of =
            |claim: &Claim, revision| token(claim, Since { revision, handoffs: 0 }).map(FencingToken::get);
        assert_eq!(of(&claim, 7), Some(7 << BITS));
        claim.handoffs = 3;
        assert_eq!(of(&claim, 7), Some((7 << BITS) + 3));
        claim.number_fence(FencingToken::new((7 << BITS) + 1_000));
        assert_eq!(of(&claim, 7), Some((7 << BITS) + 1_003));
        assert_eq!(of(&claim, 8), Some((8 << BITS) + 3), "above all of an earlier grant");
        claim.handoffs = 1 << BITS;
        assert_eq!(of(&claim, 7), None, "the next would be that of a later grant");
        let since = |revision, handoffs| token(&claim, Since { revision, handoffs }).map(FencingToken::get);
        assert_eq!(since(9, claim.handoffs), Some(9 << BITS), "counted anew");
        assert_eq!(since(9, claim.handoffs - 5), Some((9 << BITS) + 5));
        assert_eq!(since(9, claim.handoffs + 1), None, "a later holder has counted anew");
        assert_eq!(of(&claim, -1), None);
    }
}
