//! Makes fencing tokens.
//!
//! A token is the transaction number of a change in the store. Every later change has a larger number. The number of a
//! node's creation is the token of its holder only if the holder has had the key since that creation. The number of a
//! waiter's node is smaller than the tokens of the holders before it. So when a waiter is served, its token is the
//! number of a change that it makes as the holder.

use crate::backend::FencingToken;

/// Returns the token of a holder whose nodes were created by the change `created`, or `None` if a node was created or
/// deleted after that change. `changed` has the last change of each directory that the claim has read. If a directory
/// changed after `created`, an earlier holder may have a larger token.
pub(super) fn at_birth(created: i64, changed: &[i64]) -> Option<FencingToken> {
    let is_last = changed.iter().all(|changed| *changed == created);
    (is_last && created > 0).then(|| FencingToken::new(created.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_saw_another_leave_is_no_token() {
        for (created, changed, token) in [
            (7, &[7][..], Some(7)),
            (7, &[7, 7], Some(7)),
            // The previous holder made a token by change 8, and released the key by change 9.
            (7, &[9], None),
            (7, &[7, 9], None),
            // These servers do not report the numbers of the changes.
            (0, &[0], None),
            (-1, &[-1], None),
        ] {
            assert_eq!(at_birth(created, changed).map(FencingToken::get), token, "{created} {changed:?}");
        }
    }
}
