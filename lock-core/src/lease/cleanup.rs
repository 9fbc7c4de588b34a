//! Giving back what nobody waits for: grants of dropped guards, and what a cancelled acquire may have taken.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;

use super::renewer::Renewer;
use crate::backend::{Claim, Released};
use crate::backoff::Pauses;
use crate::clock::Moment;
use crate::engine;
use crate::error::{LockError, LockErrorKind};
use crate::local_queue::LocalQueue;
use crate::observe::{Observer, ReleaseContext};

/// Whether the claim is known to be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certainty {
    /// The store said yes: one answered release ends it.
    Granted,
    /// The request was sent and not answered: it may take effect after the first release, so that is repeated until one
    /// has freed something.
    Maybe,
    /// The same of an owner with earlier grants. A release that freed something may have freed those, and the request may
    /// arrive behind it, so nothing ends the repetition early.
    MaybeAgain,
}

/// A claim that is to be given back in the background.
#[derive(Debug)]
pub(crate) struct PendingRelease {
    pub(crate) claim: Claim,
    /// The end of its `min_hold`.
    pub(crate) keep_until: Option<Moment>,
    pub(crate) certainty: Certainty,
    /// It is not released before this time, unless the manager ends.
    pub(crate) not_before: Option<Moment>,
    /// From here on the store has forgotten it by itself. `None` where it never does: the release is repeated until it is
    /// answered.
    pub(crate) until: Option<Moment>,
    /// What it was, for those who read the log.
    pub(crate) context: ReleaseContext,
}

impl PendingRelease {
    /// Those who wait here for the key are to ask the store: it is free, or will be without another word.
    pub(super) fn freed(&self, local_queue: &LocalQueue) {
        self.claim.keys().for_each(|key| local_queue.freed(key));
    }

    fn abandoned(&self, observer: &Observer, error: &LockError) {
        self.context.abandoned();
        let template = self.context.template();
        let (key, error) = (observer.redact_key(&self.claim.key, template), observer.redact_error(error));
        tracing::error!(lock.template = template, lock.key = %key, %error, "release not answered; the lease is over");
    }

    fn log_retry(&self, observer: &Observer, error: &LockError) {
        let template = self.context.template();
        let (key, error) = (observer.redact_key(&self.claim.key, template), observer.redact_error(error));
        tracing::debug!(lock.key = %key, %error, "release not answered, trying again");
    }
}

/// When a release is repeated after an answer that did not settle it. A request that is still on its way on an older
/// connection usually arrives within milliseconds; a server that was stopped, or a partition that heals, takes longer.
const REPEATS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(900), Duration::from_secs(5)];

/// Also for a lease that is shorter, the repeats go on for so long.
const LONGEST_REPEAT: Duration = Duration::from_millis(1_500);

/// How many releases of one renewer are with the store at the same time.
pub(super) const AT_ONCE: usize = 256;

/// Pauses between tries that are not answered.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(1));

/// Starts the release on the renewer's runtime. Callable from anywhere, also outside a runtime and while unwinding.
pub(super) fn spawn(renewer: &Arc<Renewer>, runtime: &Handle, pending: PendingRelease) {
    let counted = Counted::new(renewer);
    runtime.spawn(async move { release(&counted.0, pending).await });
}

/// Completes when no release is pending.
pub(super) async fn all_answered(renewer: &Renewer) {
    loop {
        let mut released = std::pin::pin!(renewer.released.notified());
        released.as_mut().enable();
        if renewer.releases.load(Ordering::Acquire) == 0 {
            return;
        }
        released.await;
    }
}

/// Counts one release for as long as it is under way, also when its task is dropped with its runtime.
struct Counted(Arc<Renewer>);

impl Counted {
    fn new(renewer: &Arc<Renewer>) -> Self {
        renewer.releases.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(renewer))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.0.releases.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.released.notify_waiters();
        }
    }
}

async fn release(renewer: &Renewer, pending: PendingRelease) {
    if let Some(time) = pending.not_before {
        sleep(renewer, time.remaining(renewer.clock().now())).await;
    }
    let first = until_answered(renewer, &pending).await;
    pending.freed(&renewer.local_queue);
    let Some(mut answer) = first else { return };
    let until = renewer.clock().now().plus(pending.claim.ttl.max(LONGEST_REPEAT));
    for pause in REPEATS {
        let settled = match pending.certainty {
            Certainty::Granted => true,
            Certainty::Maybe => answer == Released::Released,
            Certainty::MaybeAgain => false,
        };
        if settled || renewer.is_hurrying() || until.remaining(renewer.clock().now()) < pause {
            return;
        }
        sleep(renewer, pause).await;
        match until_answered(renewer, &pending).await {
            Some(next) => {
                answer = next;
                if answer == Released::Released {
                    // It had taken effect late, and those who wait here took it for a holder of theirs.
                    pending.freed(&renewer.local_queue);
                }
            }
            None => return,
        }
    }
}

/// Sleeps; a manager that ends does not wait for it, and the release that follows is the last.
async fn sleep(renewer: &Renewer, pause: Duration) {
    let mut hurry = std::pin::pin!(renewer.hurry.notified());
    hurry.as_mut().enable();
    if !renewer.is_hurrying() {
        let _ = tokio::time::timeout(pause, hurry).await;
    }
}

/// Tries until the store answers; `None` once the grant has run out by itself, or the store is closed.
async fn until_answered(renewer: &Renewer, pending: &PendingRelease) -> Option<Released> {
    let mut pauses = PAUSES;
    loop {
        let answer = {
            // While the store hangs, the releases must not crowd out everything else.
            let _turn = renewer.release_turns.acquire().await;
            let keep_for = pending.keep_until.and_then(|end| engine::left(end, renewer.clock().now()));
            renewer.store.release(&pending.claim, keep_for).await
        };
        match answer {
            Ok(answer) => return Some(answer),
            // The connections are closed for good.
            Err(error) if error.kind() == LockErrorKind::ShuttingDown => return None,
            Err(error) => {
                if pending.until.is_some_and(|until| until.is_past(renewer.clock().now())) {
                    if pending.certainty == Certainty::Granted {
                        pending.abandoned(renewer.store.observer(), &error);
                    }
                    return None;
                }
                pending.log_retry(renewer.store.observer(), &error);
            }
        }
        tokio::time::sleep(pauses.next()).await;
    }
}
