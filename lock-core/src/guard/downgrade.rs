//! From a write lock to a read lock.

use std::sync::Arc;
use std::time::Duration;

use super::guard::LockGuard;

use crate::backend::{Claim, Grant, Mode, Renewal};
use crate::backoff::Pauses;
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::kind::Kind;
use crate::lease::Certainty;
use crate::lease::{Hold, LeaseOptions};

/// Pauses between questions that are not answered.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(25), Duration::from_millis(200));

impl LockGuard {
    /// Turns a write lock into a read lock, without letting another writer in between: readers may share it from now on,
    /// and those at the head of the queue are served at once. The fencing token stays.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) for a guard that is not of kind `write`, or that nested calls
    /// share; [`Lost`](LockErrorKind::Lost); [`Unavailable`](LockErrorKind::Unavailable) when the store did not answer
    /// for as long as the lease lasted. After an error the lock is given back.
    ///
    /// # Cancel safety
    /// Dropping the future gives the lock back in the background.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), lock_core::LockError> {
    /// let locks = lock_core::LockManager::in_memory();
    /// let writer = locks.write("report").acquire().await?;
    /// let reader = writer.downgrade().await?;
    /// let another = locks.read("report").acquire().await?;
    /// # drop((reader, another));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn downgrade(self) -> Result<Self> {
        downgrade(self).await
    }
}

async fn downgrade(guard: LockGuard) -> Result<LockGuard> {
    let hold = Arc::clone(guard.hold());
    let refused = |detail: &'static str| {
        Err(LockError::new(LockErrorKind::InvalidRequest, detail).with_key(&hold.claim.key))
    };
    hold.check_own_process()?;
    hold.check()?;
    if hold.options.kind != Kind::Write {
        return refused("only a write lock can be turned into a read lock");
    }
    let renewer = match hold.renewer() {
        Some(renewer) => renewer,
        None => hold.engine.renewers.here()?,
    };
    // From here on no nested call enters: it would write beside readers.
    if !hold.seal() {
        return refused("nested calls share this lock, and they need it for writing");
    }
    let mut shared =
        Shared { hold: &hold, claim: Claim { mode: Mode::Shared, ..hold.claim.clone() }, answered: false };
    let (sent, lease) = ask(&hold).await?;
    shared.answered = true;
    let claim = shared.claim.clone();
    let grant = Grant::new(sent, lease).with_fence(hold.known_fence());
    let options = LeaseOptions { kind: Kind::Read, ..hold.options };
    let (engine, span) = (Arc::clone(&hold.engine), hold.span.clone());
    let reader = Hold::since(hold.since, engine, &renewer, claim, options, &grant, span);
    reader.set_ttl(hold.ttl());
    reader.continue_record(&hold);
    hold.engine.hold_began();
    renewer.watch_handoff(&reader);
    guard.supersede();
    hold.claim.keys().for_each(|key| hold.engine.local_queue.freed(key));
    Ok(LockGuard::new(reader))
}

/// Asks until there is an answer; when the question was sent that was answered, and the lease that it brought.
async fn ask(hold: &Hold) -> Result<(Moment, Duration)> {
    let mut pauses = PAUSES;
    hold.claim.mark_shared();
    loop {
        let claim = Claim { ttl: hold.ttl(), ..hold.claim.clone() };
        hold.asked(claim.ttl);
        match hold.engine.store.downgrade(&claim).await {
            Renewal::Renewed { sent, lease, .. } => {
                // The answer may have come after the lease was over.
                hold.check()?;
                return Ok((sent, lease));
            }
            Renewal::NotOwned => {
                hold.lose(LossReason::Taken);
                hold.check()?;
            }
            Renewal::Unknown(error) if error.is_temporary() => {
                hold.check()?;
                let observer = &hold.engine.observer;
                let (key, error) =
                    (observer.redact_key(&hold.claim.key, None), observer.redact_error(&error));
                tracing::debug!(lock.key = %key, %error, "downgrade not answered, asking again");
            }
            Renewal::Unknown(error) => return Err(error.with_key(&hold.claim.key)),
        }
        hold.engine.sleep(pauses.next()).await?;
    }
}

/// What the store may have made of the grant; given back beside the guard unless the answer is there.
struct Shared<'a> {
    hold: &'a Hold,
    claim: Claim,
    answered: bool,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if !self.answered {
            // The guard, which is dropped next, gives back what is its own.
            self.hold.unseal();
            let until = self.hold.store_until();
            self.hold.engine.release_in_background(&self.claim, None, Certainty::Granted, until);
        }
    }
}
