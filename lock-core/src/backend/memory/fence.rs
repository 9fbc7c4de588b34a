//! Makes fencing tokens.

use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::Lazy;

use crate::backend::{Claim, FencingToken};
use crate::clock;

/// The next fencing token, for all keys and stores of the process. The first token is the time of the wall clock, so
/// that tokens also grow after a restart of the process, if the wall clock was not set back in the meantime.
static NEXT: Lazy<AtomicU64> =
    Lazy::new(|| AtomicU64::new(u64::try_from(clock::wall().as_micros()).unwrap_or(1)));

/// Returns a token that is larger than all earlier tokens. These include the tokens that the process numbered itself
/// for `claim`.
pub(super) fn next(claim: &Claim) -> FencingToken {
    raise(claim);
    FencingToken::new(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes every later token larger than the tokens that the process numbered itself for `claim`.
pub(super) fn raise(claim: &Claim) {
    if let Some(own) = claim.own_fence() {
        NEXT.fetch_max(own.get().saturating_add(1), Ordering::Relaxed);
    }
}
