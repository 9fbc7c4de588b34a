//! Where the owners of a manager come from.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::owner::{GROUPED, Owner, STRICT};

/// Makes the owners of one manager.
pub(crate) struct OwnerSource {
    process: u128,
    next: AtomicU64,
}

/// The random part belongs to every token and is as secret as the tokens.
impl fmt::Debug for OwnerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerSource(..)")
    }
}

impl OwnerSource {
    /// Draws the random part from the operating system.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        Ok(Self { process: u128::from_be_bytes(random), next: AtomicU64::new(1) })
    }

    /// See [`Owner::process`].
    pub(crate) fn process(&self) -> u128 {
        self.process
    }

    /// Makes an owner whose grants are never handed off: every release goes to the store.
    pub(crate) fn mint_strict(&self) -> Owner {
        let Owner { process, counter } = self.mint();
        Owner { process, counter: counter | STRICT }
    }

    /// Makes an owner whose grants are shared by the waiters that stand directly behind it.
    pub(crate) fn mint_grouped(&self) -> Owner {
        let Owner { process, counter } = self.mint();
        Owner { process, counter: counter | GROUPED }
    }

    /// Makes another owner, strict or grouped if `owner` is.
    pub(crate) fn mint_like(&self, owner: Owner) -> Owner {
        let Owner { process, counter } = self.mint();
        Owner { process, counter: counter | owner.counter & (STRICT | GROUPED) }
    }

    pub(crate) fn mint(&self) -> Owner {
        Owner { process: self.process, counter: self.next.fetch_add(1, Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_distinct_and_hidden() {
        let source = OwnerSource::new().unwrap();
        let (first, second) = (source.mint(), source.mint());
        assert_ne!(first.token().as_str(), second.token().as_str());
        assert_eq!(first.token().as_str()[..32], second.token().as_str()[..32]);
        assert_eq!(format!("{first:?} {:?}", first.token()), "Owner(..) OwnerToken(..)");
    }

    #[test]
    fn a_grant_is_handed_on_among_owners_of_one_class() {
        let (source, other) = (OwnerSource::new().unwrap(), OwnerSource::new().unwrap());
        let kinds = [OwnerSource::mint, OwnerSource::mint_strict, OwnerSource::mint_grouped];
        for (at, mint) in kinds.iter().enumerate() {
            let owner = mint(&source);
            for (to, also) in kinds.iter().enumerate() {
                let here = also(&source);
                assert_eq!(owner.may_hand_off_to(&here), (at, to) == (0, 0), "{at} {to}");
                assert_eq!(owner.may_share_with(&here), (at, to) == (2, 2), "{at} {to}");
                // The scripts see it by this much of the token.
                assert_eq!(
                    owner.token().as_str()[..33] == here.token().as_str()[..33],
                    at == to,
                    "{at} {to}"
                );
                assert!(!owner.may_hand_off_to(&also(&other)) && !owner.may_share_with(&also(&other)));
            }
            let like = source.mint_like(owner);
            assert_eq!(like.token().as_str()[..33], owner.token().as_str()[..33], "{at}");
            assert_ne!(like, owner);
        }
    }
}
