//! Turns a write lock into a read lock.

use std::sync::Arc;
use std::time::Duration;

use super::guard::LockGuard;
use super::hold::Hold;
use super::release::Releasing;

use crate::backend::{Claim, Grant, Mode};
use crate::backoff::Pauses;
use crate::clock::Moment;
use crate::error::{LockError, LockErrorKind, Result};
use crate::kind::Kind;
use crate::lease::Lease;
use crate::options::LeaseOptions;
use crate::pending::{Certainty, Granted};

/// The pauses between the attempts of a request that gets no answer.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(25), Duration::from_millis(200));

impl LockGuard {
    /// Turns a write lock into a read lock. No other writer gets the lock in between. Other readers may then share the
    /// lock, and the store grants it at once to readers at the head of the queue. The fencing token stays the same.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if the guard is not of kind `write`, or nested calls share it;
    /// [`Lost`](LockErrorKind::Lost); [`Unavailable`](LockErrorKind::Unavailable) if the store did not answer before
    /// the lease ended; [`ShuttingDown`](LockErrorKind::ShuttingDown). After an error the lock is released, except if
    /// nested calls share it.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock in the background.
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
        let engine = Arc::clone(&self.lease().engine);
        engine.inside(downgrade(self)).await
    }
}

async fn downgrade(guard: LockGuard) -> Result<LockGuard> {
    // The hub is dropped last, even after an error. It keeps the background runtime alive, which releases the lock.
    let (hub, hold) = guard.into_parts();
    let lease = Arc::clone(hold.lease());
    let refused = |detail: &'static str| {
        Err(LockError::new(LockErrorKind::InvalidRequest, detail).with_key(&lease.claim().key))
    };
    lease.check()?;
    // A lock of several keys never has this kind.
    if lease.options.kind != Kind::Write {
        return refused("only a write lock can be turned into a read lock");
    }
    // The schedule is fetched before the request, because no step between the answer and the new lease may fail.
    let schedule = hub.renewers.schedule_of(&lease)?;
    // From here on no nested call may enter, because the nested call would write while others read.
    if !lease.seal() {
        return refused("nested calls share this lock, and they need it for writing");
    }
    // This value is made before the request. If the future is dropped, `shared` releases both the exclusive grant and
    // the shared one.
    let mut shared =
        Shared { lease: &lease, claim: Claim { mode: Mode::Shared, ..lease.own_claim() }, answered: false };
    let (sent, length) = ask(&lease).await?;
    shared.answered = true;
    let claim = shared.claim.clone();
    let grant = Grant::new(sent, length).with_fence(lease.known_fence());
    let granted = Granted { grant, arrived: lease.now() };
    let options = LeaseOptions { kind: Kind::Read, ..lease.options };
    let (engine, span) = (Arc::clone(&lease.engine), lease.span.clone());
    // `max_hold` and `min_hold` count from the original grant, which the new lease continues.
    let reader = Lease::new(lease.since, engine, schedule.runtime(), claim, options, &granted, span);
    reader.set_ttl(lease.ttl());
    reader.recorder.continue_from(&lease.recorder);
    lease.engine.lease_began();
    // The new lease is watched before the old one ends, so the grant is renewed at all times.
    schedule.watch_handoff(&reader);
    if let Some(reason) = lease.engine.lost.reason(reader.claim().owner) {
        // The loss was reported while only the old lease was in the schedule, so the report did not reach `reader`.
        reader.lose(reason);
    }
    hold.supersede();
    lease.claim().keys().for_each(|key| lease.engine.local_queue.freed(key, lease.claim().owner));
    Ok(LockGuard::new(Hold::new(reader), hub))
}

/// Repeats the request until the store answers. Returns the time at which the successful request was sent, and the
/// length of the granted lease.
async fn ask(lease: &Lease) -> Result<(Moment, Duration)> {
    let mut pauses = PAUSES;
    // The claim is marked before the first request. From then on, a release of the exclusive claim must also release a
    // shared grant.
    lease.claim().mark_shared();
    loop {
        let claim = Claim { ttl: lease.ttl(), ..lease.own_claim() };
        lease.asked(claim.ttl);
        let error = match lease.accept(lease.engine.store.downgrade(&claim).await) {
            Err(error) if error.is_temporary() => error,
            answer => return answer.map_err(|error| error.or_key(&lease.claim().key)),
        };
        lease.check()?;
        let observer = &lease.engine.observer;
        let (key, error) = (observer.redact_key(&lease.claim().key, None), observer.redact_error(&error));
        tracing::debug!(lock.key = %key, %error, "downgrade not answered, asking again");
        lease.engine.sleep(pauses.next()).await?;
    }
}

/// The shared grant that the store may have made from the exclusive one. Without an answer, it is unknown whether the
/// store has executed the request, so both forms are released.
struct Shared<'a> {
    lease: &'a Arc<Lease>,
    claim: Claim,
    answered: bool,
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        if !self.answered {
            // `seal` has removed the only guard from the count of the lease, so the drop of the guard does not release
            // the lock. End the lease and release the grant here.
            self.lease.end();
            drop(Releasing::to_store(Arc::clone(self.lease)));
            let until = self.lease.store_until();
            self.lease.engine.cleanup.release(&self.claim, Certainty::Granted, until, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::error::LossReason;
    use crate::manager::LockManager;

    /// The loss is recorded while the list of leases does not contain the read lock yet. So the downgrade must read the
    /// record.
    #[tokio::test(start_paused = true)]
    async fn a_loss_that_was_reported_to_the_write_lock_alone_reaches_the_read_lock() {
        let locks = LockManager::in_memory();
        let writer = locks.write("k").acquire().await.expect("it is free");
        let (engine, owner) = (writer.lease().engine.clone(), writer.lease().claim().owner);
        engine.lost.note(&[owner], LossReason::Taken);
        assert!(writer.is_held(), "its lease was not told");
        let reader = writer.downgrade().await.expect("memory answers");
        assert_eq!(reader.check().expect_err("lost").loss_reason(), Some(LossReason::Taken));
    }
}
