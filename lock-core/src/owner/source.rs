//! Creates the owners of a manager.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::owner::{Owner, STRICT};

/// The bits of the counter that count owners. The first hexadecimal digit is excluded, because it contains the flag
/// [`STRICT`].
const COUNTED: u64 = (1 << 60) - 1;

/// The number of random bits of a [leap](OwnerSource::leap).
const LEAP: u32 = 40;

pub(crate) struct OwnerSource {
    process: u128,
    next: AtomicU64,
}

/// The output hides the random part, which is in every token, and so is as secret as the tokens.
impl fmt::Debug for OwnerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerSource(..)")
    }
}

impl OwnerSource {
    /// Creates a source with a random part from the operating system.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        Ok(Self { process: u128::from_be_bytes(random), next: AtomicU64::new(1) })
    }

    /// Advances the counter by a random number. Call this before each new connection.
    ///
    /// A snapshot of a virtual machine, or a checkpoint of the process, copies the random part and the counter. If two
    /// copies continued with the same counter, they would create the same owners. The store would then mistake a
    /// request of one copy for a repeated request of the other copy. But a connection cannot survive in both copies, so
    /// each copy that opens a new connection continues with a different number. The counter only grows, so one process
    /// never creates the same owner twice.
    pub(crate) fn leap(&self) {
        let mut random = [0; 8];
        // The number comes from the operating system, because a snapshot also copies the state of a random generator in
        // this process. If the system cannot return random bytes, the counter is not advanced.
        if getrandom::fill(&mut random).is_ok() {
            self.next.fetch_add(u64::from_be_bytes(random) >> (64 - LEAP), Ordering::Relaxed);
        }
    }

    /// Returns the random part; see [`Owner::process`].
    pub(crate) fn process(&self) -> u128 {
        self.process
    }

    /// Creates a strict owner. Its grants are never handed off, so every release is sent to the store.
    pub(crate) fn mint_strict(&self) -> Owner {
        let Owner { process, counter } = self.mint();
        Owner { process, counter: counter | STRICT }
    }

    /// Creates a new owner, which is strict if `owner` is strict.
    pub(crate) fn mint_like(&self, owner: Owner) -> Owner {
        let Owner { process, counter } = self.mint();
        Owner { process, counter: counter | owner.counter & STRICT }
    }

    pub(crate) fn mint(&self) -> Owner {
        Owner { process: self.process, counter: self.next.fetch_add(1, Ordering::Relaxed) & COUNTED }
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
    fn copies_of_a_process_make_owners_of_their_own_once_they_dial() {
        let source = OwnerSource::new().unwrap();
        source.mint();
        let copy = OwnerSource {
            process: source.process,
            next: AtomicU64::new(source.next.load(Ordering::Relaxed)),
        };
        assert_eq!(source.mint(), copy.mint(), "an exact copy");
        let before = source.mint();
        source.leap();
        copy.leap();
        let (one, other) = (source.mint(), copy.mint());
        assert_ne!(one, other);
        assert!(one.counter > before.counter, "it makes no owner twice");
        assert_eq!(one.process, other.process, "messages still reach it");
    }

    #[test]
    fn a_counter_that_wraps_changes_no_kind() {
        let source = OwnerSource { process: 1, next: AtomicU64::new(COUNTED) };
        for _ in 0..3 {
            assert_eq!(&source.mint().token().as_str()[32..33], "0");
        }
    }

    #[test]
    fn a_grant_is_handed_off_among_owners_that_are_not_strict() {
        let (source, other) = (OwnerSource::new().unwrap(), OwnerSource::new().unwrap());
        let kinds = [OwnerSource::mint, OwnerSource::mint_strict];
        for (at, mint) in kinds.iter().enumerate() {
            let owner = mint(&source);
            for (to, also) in kinds.iter().enumerate() {
                let here = also(&source);
                assert_eq!(owner.may_hand_off_to(&here), (at, to) == (0, 0), "{at} {to}");
                // The scripts of the store use this part of the token to detect whether the owner is strict.
                assert_eq!(
                    owner.token().as_str()[..33] == here.token().as_str()[..33],
                    at == to,
                    "{at} {to}"
                );
                assert!(!owner.may_hand_off_to(&also(&other)));
            }
            let like = source.mint_like(owner);
            assert_eq!(like.token().as_str()[..33], owner.token().as_str()[..33], "{at}");
            assert_ne!(like, owner);
        }
    }
}
