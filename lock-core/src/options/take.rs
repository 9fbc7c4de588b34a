//! Checks how many semaphore permits a request acquires.

use super::flaw::Flaw;
use crate::backend::Capability;
use crate::kind::Kind;

/// The maximum number of permits that one request may acquire. A store writes all of them in one step, and serves no
/// other request during that step.
const MOST_PERMITS: u32 = 100;

/// Refuses a number of permits that the store could never grant to a lock of `kind`.
pub(crate) fn check_take(take: u32, kind: Kind, store: &Capability) -> Result<(), Flaw> {
    let invalid = |detail: String| Err(Flaw::invalid("take", detail));
    match kind {
        _ if take == 1 => Ok(()),
        _ if take == 0 => invalid("take is 0: a request takes at least 1 permit".to_owned()),
        Kind::Semaphore { permits } if take > permits => invalid(format!(
            "take is {take}, and the semaphore has {permits} permits: the request would wait for ever"
        )),
        Kind::Semaphore { .. } if take > MOST_PERMITS => {
            invalid(format!("take is {take}: a request takes at most {MOST_PERMITS} permits"))
        }
        Kind::Semaphore { .. } if !store.several_permits => {
            let detail = format!(
                "take is {take}, and the {} store gives one permit to each holder: use memory or Redis for that",
                store.store
            );
            Err(Flaw::unsupported("take", detail))
        }
        Kind::Semaphore { .. } => Ok(()),
        other => invalid(format!(
            "take is {take}, and a lock of kind {other} has no permits: remove `take`, or use a semaphore"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LockErrorKind::{InvalidRequest, Unsupported};

    #[test]
    fn a_request_takes_as_many_permits_as_could_be_granted() {
        let able = Capability { permits: true, several_permits: true, ..Capability::exclusive("able") };
        let unable = Capability { several_permits: false, ..able };
        let of = |permits| Kind::Semaphore { permits };
        for (take, kind, store, refused) in [
            (1, Kind::Reentrant, unable, None),
            (1, of(1), unable, None),
            (3, of(3), able, None),
            (100, of(1_000), able, None),
            (0, of(3), able, Some((InvalidRequest, "at least 1 permit"))),
            (0, Kind::Reentrant, able, Some((InvalidRequest, "at least 1 permit"))),
            (4, of(3), able, Some((InvalidRequest, "has 3 permits: the request would wait for ever"))),
            (101, of(1_000), able, Some((InvalidRequest, "at most 100 permits"))),
            (2, Kind::Read, able, Some((InvalidRequest, "kind read has no permits"))),
            (2, of(3), unable, Some((Unsupported, "the able store gives one permit to each holder"))),
        ] {
            match (check_take(take, kind, &store), refused) {
                (Ok(()), None) => {}
                (Err(flaw), Some((error, text))) => {
                    assert_eq!((flaw.option, flaw.error.kind()), ("take", error), "{take} of {kind}");
                    assert!(flaw.error.to_string().contains(text), "{take} of {kind}: {}", flaw.error);
                }
                (checked, _) => panic!("{take} of {kind}: {checked:?}"),
            }
        }
    }
}
