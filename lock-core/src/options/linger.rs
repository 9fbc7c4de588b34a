//! Decides which grants may linger, and for how long. A grant lingers if the process keeps it after the release, for
//! its next request.

use std::time::Duration;

use crate::backend::Capability;
use crate::error::{LockError, LockErrorKind, Result};
use crate::kind::Kind;

/// The longest linger for any ttl. If the notification to the holder is lost, this limits how long a waiter in another
/// process waits.
const LONGEST: Duration = Duration::from_secs(1);

/// Returns the longest linger for a lease of `ttl`. A lease is renewed after a third of its length, so at least about
/// two thirds remain at the release. One third is for the linger, and the rest is for a request that reuses the grant
/// at the end of the linger.
fn longest(ttl: Duration) -> Duration {
    LONGEST.min(ttl / 3)
}

/// Returns why a grant of this kind, or of several keys, cannot linger. Returns `None` if the grant can linger.
pub(super) fn cannot_linger(kind: Kind, several: bool) -> Option<&'static str> {
    match kind {
        _ if several => {
            Some("it waits for one key after another, and a grant of all of them would be in its own way")
        }
        Kind::Reentrant => None,
        Kind::Fair => {
            Some("it gets the key in the order of the store's queue, and a grant that stays would break that")
        }
        Kind::Read | Kind::Write => Some("readers and writers get the key in the order of the store's queue"),
        Kind::Semaphore { .. } => {
            Some("the store tells nobody who holds a permit that somebody waits for one")
        }
    }
}

/// Returns the error text for a request that cannot linger. `why` is the result of [`cannot_linger`].
pub(super) fn refusal(linger: Duration, kind: Kind, several: bool, why: &str) -> String {
    let what = if several { "a lock of several keys".to_owned() } else { format!("a lock of kind {kind}") };
    format!("linger is {linger:?}, and {what} cannot: {why}")
}

/// Refuses a linger that the store does not support, or that is too long for a lease of `ttl`.
pub(super) fn check(linger: Duration, ttl: Duration, store: &Capability) -> Result<()> {
    if linger.is_zero() {
        return Ok(());
    }
    if !store.waiting.tells_holder() {
        let detail = format!(
            "linger is {linger:?}, and the {} store tells no holder that somebody waits: that one would wait for the end of it",
            store.store
        );
        return Err(LockError::new(LockErrorKind::Unsupported, detail));
    }
    if linger > longest(ttl) {
        let detail = format!(
            "linger is {linger:?}: it is at most {LONGEST:?}, and a third of the ttl, which is {ttl:?}"
        );
        return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
    }
    Ok(())
}

/// The facts about a request that decide how long its grant may linger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lingers {
    pub(crate) kind: Kind,
    /// Whether the request is for several keys.
    pub(crate) several: bool,
    pub(crate) ttl: Duration,
}

impl Lingers {
    /// Returns how long the grant lingers. `own` is the option of the request itself. If the grant cannot linger for
    /// that long, returns an error. `default` comes from a profile or the manager, and is shared by many requests. So a
    /// request that cannot linger ignores it, and the others linger for at most [`longest`].
    pub(crate) fn decide(
        self,
        own: Option<Duration>,
        default: Option<Duration>,
        store: &Capability,
    ) -> Result<Option<Duration>> {
        let cannot = cannot_linger(self.kind, self.several);
        let Some(own) = own else {
            let able = cannot.is_none() && store.waiting.tells_holder();
            let linger = default.filter(|_| able).map(|linger| linger.min(longest(self.ttl)));
            return Ok(linger.filter(|linger| !linger.is_zero()));
        };
        if let Some(why) = cannot.filter(|_| !own.is_zero()) {
            let detail = refusal(own, self.kind, self.several, why);
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        check(own, self.ttl, store)?;
        Ok(Some(own).filter(|linger| !linger.is_zero()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::Memory;
    use crate::backend::{Backend, Waiting};

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn silent() -> Capability {
        Capability { waiting: Waiting::Poll, ..Memory::new().capability() }
    }

    #[test]
    fn what_a_request_says_is_refused_where_it_cannot_be() {
        let store = Memory::new().capability();
        let one = Lingers { kind: Kind::Reentrant, several: false, ttl: MS(300) };
        let table = [
            (one, MS(5), &store, Ok(Some(MS(5)))),
            (one, MS(100), &store, Ok(Some(MS(100)))),
            (one, MS(101), &store, Err("a third of the ttl, which is 300ms")),
            (Lingers { ttl: MS(60_000), ..one }, MS(1_001), &store, Err("at most 1s")),
            (one, MS(5), &silent(), Err("tells no holder that somebody waits")),
            (Lingers { kind: Kind::Fair, ..one }, MS(5), &store, Err("a lock of kind fair cannot")),
            (Lingers { kind: Kind::Read, ..one }, MS(5), &store, Err("readers and writers")),
            (Lingers { kind: Kind::Write, ..one }, MS(5), &store, Err("readers and writers")),
            (Lingers { kind: Kind::Semaphore { permits: 1 }, ..one }, MS(5), &store, Err("permit")),
            (Lingers { several: true, ..one }, MS(5), &store, Err("a lock of several keys cannot")),
            (Lingers { kind: Kind::Fair, ..one }, Duration::ZERO, &silent(), Ok(None)),
        ];
        for (request, linger, store, expected) in table {
            let decided = request.decide(Some(linger), Some(MS(9)), store);
            match (decided, expected) {
                (Ok(decided), Ok(expected)) => assert_eq!(decided, expected, "{request:?} {linger:?}"),
                (Err(error), Err(text)) => {
                    assert!(error.to_string().contains(text), "{request:?} {linger:?}: {error}");
                }
                (decided, expected) => panic!("{request:?} {linger:?}: {decided:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_default_counts_where_it_can() {
        let store = Memory::new().capability();
        let one = Lingers { kind: Kind::Reentrant, several: false, ttl: MS(300) };
        let table = [
            (one, None, &store, None),
            (one, Some(MS(5)), &store, Some(MS(5))),
            (one, Some(Duration::ZERO), &store, None),
            (Lingers { ttl: MS(9), ..one }, Some(MS(5)), &store, Some(MS(3))),
            (one, Some(MS(5)), &silent(), None),
            (Lingers { kind: Kind::Fair, ..one }, Some(MS(5)), &store, None),
            (Lingers { several: true, ..one }, Some(MS(5)), &store, None),
        ];
        for (request, default, store, expected) in table {
            let decided = request.decide(None, default, store).expect("a default is never refused");
            assert_eq!(decided, expected, "{request:?} {default:?}");
        }
    }
}
