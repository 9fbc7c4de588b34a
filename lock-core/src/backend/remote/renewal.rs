//! Combines the answers to the renewals of single keys. Each key has a verdict, and each grant has one answer.

use std::time::Duration;

use super::failure::Failure;
use crate::backend::{Claim, Renew, Renewal};
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind};
use crate::key::Key;

/// One key of a grant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLease<'a> {
    pub(crate) key: &'a Key,
    pub(crate) claim: &'a Claim,
    pub(crate) ttl: Duration,
}

impl<'a> KeyLease<'a> {
    /// Returns the keys of a grant.
    pub(crate) fn of_grant(renew: &Renew<'a>) -> impl Iterator<Item = Self> + use<'a> {
        let Renew { claim, ttl } = *renew;
        claim.keys().map(move |key| Self { key, claim, ttl })
    }
}

/// The answer for one key.
#[derive(Clone, Debug)]
pub(crate) enum Verdict<R> {
    /// The moment at which the renewing request was sent, and the number of waiters.
    Renewed(Moment, usize),
    NotOwned,
    Unknown(Failure<R>),
}

impl<R> Verdict<R> {
    /// Combines the verdicts for two keys of one grant. The grant is lost if one key is lost, and renewed if both are
    /// renewed. The lease of the grant counts from the earlier request.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            // A certain loss outweighs a missing answer, because another owner may already hold the lost key.
            (Self::NotOwned, _) | (_, Self::NotOwned) => Self::NotOwned,
            (Self::Unknown(failure), _) | (_, Self::Unknown(failure)) => Self::Unknown(failure),
            (Self::Renewed(sent, one), Self::Renewed(also, other)) => {
                Self::Renewed(if also.since(sent).is_zero() { also } else { sent }, one + other)
            }
        }
    }
}

/// Combines the verdicts for the keys of a batch, in their order, into one answer for each grant.
pub(crate) fn of_grants<R: Default>(
    batch: &[Renew<'_>],
    verdicts: Vec<Verdict<R>>,
    error: impl Fn(&Failure<R>) -> LockError,
) -> Vec<Renewal> {
    let mut verdicts = verdicts.into_iter();
    let missing = || Verdict::Unknown(Failure::new(LockErrorKind::Unavailable, "a verdict is missing"));
    let of_grant = |renew: &Renew<'_>| {
        let keys = verdicts.by_ref().take(renew.claim.keys().count());
        match keys.reduce(Verdict::and).unwrap_or_else(missing) {
            Verdict::Renewed(sent, waiters) => {
                Renewal::Renewed { sent, lease: renew.ttl, waiters: Some(waiters) }
            }
            Verdict::NotOwned => Renewal::NotOwned,
            Verdict::Unknown(failure) => Renewal::Unknown(error(&failure).with_key(&renew.claim.key)),
        }
    };
    batch.iter().map(of_grant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_grant_of_several_keys_is_renewed_when_all_are() {
        let (first, second) = (Clock::Suspend.now(), Clock::Suspend.now().plus(Duration::from_secs(1)));
        let unknown = || Verdict::<()>::Unknown(Failure::no_answer(Duration::ZERO));
        for (one, other) in [(first, second), (second, first)] {
            let both = Verdict::<()>::Renewed(one, 1).and(Verdict::Renewed(other, 2));
            assert!(matches!(both, Verdict::Renewed(sent, 3) if sent.since(first).is_zero()));
        }
        let renewed = || Verdict::Renewed(first, 0);
        assert!(matches!(renewed().and(Verdict::<()>::NotOwned), Verdict::NotOwned));
        assert!(matches!(unknown().and(Verdict::NotOwned), Verdict::NotOwned));
        assert!(matches!(Verdict::NotOwned.and(unknown()), Verdict::NotOwned));
        assert!(matches!(unknown().and(renewed()), Verdict::Unknown(_)));
        assert!(matches!(renewed().and(unknown()), Verdict::Unknown(_)));
    }
}
