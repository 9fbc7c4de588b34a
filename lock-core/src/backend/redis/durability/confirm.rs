//! Waits until replicas have the writes of a connection; many callers share one wait.
//!
//! WAIT is sent over the connection that wrote, not over a separate one. WAIT covers the last write of its own
//! connection, so a separate connection would have to write first. After a failover in between, that write would reach
//! the next primary, which would confirm it although it never had the grant. On one connection a single process
//! executes both, or the connection breaks and neither counts.
//!
//! The price: while the server waits for copies, it serves nothing else on that connection. So there is one WAIT at a
//! time, which covers everything that was answered before it was sent (64 grants need about three, not 64), and it
//! waits for at most a third of the call's deadline. Renewals have a connection of their own, and so does every
//! runtime. The supervisor allows its heartbeats that much more time, because they queue behind a WAIT as every request
//! does.
//!
//! Nothing outlives the connection: a write is confirmed over the connection that made it, or not at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::{Cmd, Pipeline, Value};

use super::policy::Copies;
use crate::backend::redis::config::Durability;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, SessionState};
use crate::backend::redis::units::millis;

/// The divisor of a call's deadline that yields the time limit of one confirmation. The call may first have to wait for
/// the confirmation of another call, and a grant that does not count must be released in time.
const SHARE_OF_DEADLINE: u32 = 3;

/// Confirms the writes of one connection.
#[derive(Debug)]
pub(crate) struct Confirmer {
    durability: Durability,
    /// The number of the last write that needs a confirmation.
    written: AtomicU64,
    /// The last confirmation; locked while another is under way.
    last: tokio::sync::Mutex<Round>,
}

/// One confirmation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    /// The number of the last write that it covers.
    covers: u64,
    copies: Copies,
    patience: Duration,
}

impl Round {
    /// Returns whether this confirmation decides about write `number`, so that no other is needed. If this WAIT found
    /// too few copies, a less patient one would too.
    fn settles(&self, number: u64, durability: Durability, patience: Duration) -> bool {
        self.covers >= number && (durability.is_met(self.copies) || self.patience >= patience)
    }

    fn verdict(&self, durability: Durability) -> Result<(), Failure> {
        match durability.is_met(self.copies) {
            true => Ok(()),
            false => Err(durability.missing(self.copies, self.patience)),
        }
    }
}

impl Confirmer {
    pub(crate) fn new(durability: Durability) -> Self {
        Self { durability, written: AtomicU64::new(0), last: tokio::sync::Mutex::default() }
    }
}

/// Returns how long one confirmation may take in a call with this deadline, in whole milliseconds, as the server
/// counts.
pub(crate) fn patience(deadline: Duration) -> Duration {
    Duration::from_millis(millis(deadline / SHARE_OF_DEADLINE))
}

/// The confirmation of a grant, if it was requested in the same pipeline; otherwise `None`.
pub(crate) type Confirmed = Option<Result<(), Failure>>;

impl Confirmer {
    /// Sends a command that grants over its connection. If no confirmation is under way, requests one in the same
    /// pipeline; otherwise the grant must be [confirmed](Self::confirm) afterwards, together with others.
    pub(crate) async fn grant<S: SessionState>(
        &self,
        connection: &Connection<S>,
        command: &Cmd,
        deadline: Duration,
    ) -> Result<(Value, Confirmed), Failure> {
        // This is not awaited: the request for a grant must not wait for the confirmation of another.
        let Ok(mut last) = self.last.try_lock() else { return Ok((connection.send(command).await?, None)) };
        let (durability, patience) = (self.durability, patience(deadline));
        // A write gets its number after its answer, so every write numbered by now precedes this WAIT.
        let covers = self.written.load(Ordering::Acquire);
        let mut both = Pipeline::with_capacity(2);
        // The grant first: WAIT covers the writes before it on this connection. If the key is held nothing was written,
        // and WAIT answers for earlier writes.
        both.add_command(command.clone()).add_command(durability.command(patience));
        let mut answers = connection.send_all(&both).await?.into_iter();
        let answer = match answers.next().unwrap_or_default() {
            // The command failed, so the answer to the confirmation does not matter.
            Value::ServerError(error) => return Err(connection.noted(Failure::of_reply(&error))),
            answer => answer,
        };
        let copies = match durability.read(&answers.next().unwrap_or_default()) {
            Ok(copies) => copies,
            // The grant may be in the store all the same. Its answer lets the caller release it.
            Err(failure) => return Ok((answer, Some(Err(connection.noted(failure))))),
        };
        *last = Round { covers, copies, patience };
        Ok((answer, Some(last.verdict(durability))))
    }

    /// Waits until every write that was answered over its connection has enough copies. The error says how many copies
    /// there are.
    ///
    /// The write in question must have been made over this connection, because WAIT covers the last write of its
    /// connection.
    pub(crate) async fn confirm<S: SessionState>(
        &self,
        connection: &Connection<S>,
        deadline: Duration,
    ) -> Result<(), Failure> {
        let (durability, patience) = (self.durability, patience(deadline));
        // Numbered before the wait for the lock, so that a confirmation which starts in between covers this write.
        let number = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        // The caller that confirms for all may no longer be polled. This caller then asks for itself.
        let Ok(mut last) = tokio::time::timeout(patience, self.last.lock()).await else {
            let answer = connection.send(&durability.command(patience)).await?;
            return Round { covers: number, copies: durability.read(&answer)?, patience }.verdict(durability);
        };
        // The confirmation of another caller may have covered this write during the wait.
        if !last.settles(number, durability, patience) {
            // Read before WAIT is sent: a write that is numbered later may come after it.
            let covers = self.written.load(Ordering::Acquire);
            // The mutex is held across this await. If this caller is dropped here, the next one gets the mutex and
            // sends its own WAIT, because `last` still covers less.
            let answer = connection.send(&durability.command(patience)).await?;
            *last = Round { covers, copies: durability.read(&answer)?, patience };
        }
        last.verdict(durability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_is_shared_as_far_as_it_says_enough() {
        let durability = Durability::Replicas(1);
        let copies = |number| durability.read(&Value::Int(number)).expect("a number");
        let ms = Duration::from_millis;
        let good = Round { covers: 7, copies: copies(1), patience: ms(50) };
        let bad = Round { copies: copies(0), ..good };
        let table = [
            (good, 7, ms(50), true),
            (good, 1, ms(900), true),
            (good, 8, ms(50), false),
            (bad, 7, ms(50), true),
            (bad, 7, ms(20), true),
            (bad, 7, ms(51), false),
            (bad, 8, ms(20), false),
            (Round::default(), 1, ms(0), false),
        ];
        for (round, number, patience, expected) in table {
            assert_eq!(
                round.settles(number, durability, patience),
                expected,
                "{round:?} {number} {patience:?}"
            );
        }
        assert!(good.verdict(durability).is_ok());
        assert!(format!("{:?}", bad.verdict(durability)).contains("0 of 1 replica "));
    }
}
