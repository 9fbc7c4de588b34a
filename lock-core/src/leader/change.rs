//! Defines the changes of the leader, and decides which states are reported as a change.

use super::candidate::Term;
use super::leader::Leader;
use crate::backend::{FencingToken, GrantId};
use crate::error::LossReason;

/// A change of the leader.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LeaderChange {
    /// This candidate was elected and now leads.
    #[non_exhaustive]
    Elected {
        /// The fencing token, which is larger than the token of every earlier leader.
        fencing_token: FencingToken,
    },
    /// This candidate has lost the leadership. Requests that its body sent before may still arrive.
    #[non_exhaustive]
    Lost {
        /// The reason of the loss.
        reason: LossReason,
    },
    /// This candidate has resigned from the leadership.
    Resigned,
    /// Another candidate now leads.
    Other(Leader),
    /// No candidate leads.
    Vacant,
}

/// The last state that was reported to the reader.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// No state was reported since the start, or since this candidate's leadership ended. The next state is always
    /// reported.
    Nothing,
    Own(Term),
    Other(GrantId),
    Vacant,
}

impl Told {
    /// Returns the change of this candidate's own leadership that was not reported yet, if any. `held` is the term in
    /// which the candidate leads now.
    pub(super) fn own_news(&mut self, held: Option<&Term>) -> Option<LeaderChange> {
        if let Self::Own(term) = self {
            if term.is_held() {
                return None;
            }
            let change = match term.handle.check().err().and_then(|error| error.loss_reason()) {
                Some(reason) => LeaderChange::Lost { reason },
                None => LeaderChange::Resigned,
            };
            *self = Self::Nothing;
            return Some(change);
        }
        let term = held?.clone();
        let change = LeaderChange::Elected { fencing_token: term.token };
        *self = Self::Own(term);
        Some(change)
    }

    /// Returns the change if `leader`, as read from the store, differs from the last reported state.
    pub(super) fn news_of(&mut self, leader: Option<Leader>) -> Option<LeaderChange> {
        match (&*self, leader) {
            (Self::Own(_) | Self::Vacant, None) => None,
            // `own_news` reports the candidate's own election, and the end of its leadership.
            (Self::Own(_), Some(_)) => None,
            (_, Some(leader)) if leader.is_self => None,
            (Self::Other(id), Some(leader)) if *id == leader.id => None,
            (Self::Nothing | Self::Other(_), None) => {
                *self = Self::Vacant;
                Some(LeaderChange::Vacant)
            }
            (Self::Nothing | Self::Other(_) | Self::Vacant, Some(leader)) => {
                *self = Self::Other(leader.id.clone());
                Some(LeaderChange::Other(leader))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(digit: char, is_self: bool) -> Leader {
        let id = digit.to_string().repeat(40).parse().expect("an id");
        Leader { id, record: None, remaining: None, fencing_token: None, is_self }
    }

    #[test]
    fn what_the_store_shows_is_news_once() {
        let other = |digit| Told::Other(leader(digit, false).id);
        let text = |change: &Option<LeaderChange>| match change {
            None => "none".to_owned(),
            Some(LeaderChange::Vacant) => "vacant".to_owned(),
            Some(LeaderChange::Other(leader)) => leader.id.as_str()[..1].to_owned(),
            Some(change) => panic!("{change:?}"),
        };
        for (told, shown, expected) in [
            (Told::Nothing, None, "vacant"),
            (Told::Nothing, Some(leader('a', false)), "a"),
            (Told::Nothing, Some(leader('a', true)), "none"),
            (Told::Vacant, None, "none"),
            (Told::Vacant, Some(leader('a', false)), "a"),
            (Told::Vacant, Some(leader('a', true)), "none"),
            (other('a'), None, "vacant"),
            (other('a'), Some(leader('a', false)), "none"),
            (other('a'), Some(leader('b', false)), "b"),
            (other('a'), Some(leader('b', true)), "none"),
        ] {
            let mut now = told.clone();
            let change = now.news_of(shown.clone());
            assert_eq!(text(&change), expected, "{told:?}, {shown:?}");
            let again = now.news_of(shown.clone());
            assert!(again.is_none(), "{told:?}, {shown:?}: told twice");
        }
    }
}
