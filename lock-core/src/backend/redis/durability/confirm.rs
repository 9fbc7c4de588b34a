//! Waits until replicas have the writes of a connection. Many callers share one wait.
//!
//! WAIT must be sent over the connection that sent the write, because WAIT confirms only writes of its own connection.
//! A separate connection would have to make a write of its own first. If a failover happened before that write, the
//! next primary would confirm the write, although it never received the grant. Over one connection, the same server
//! process executes the write and the WAIT. If the connection breaks, neither counts.
//!
//! While the server waits for replicas, it executes no other command of that connection. So only one WAIT runs at a
//! time. A WAIT covers every write that was answered before the WAIT was sent, so 64 concurrent grants need about three
//! WAITs. A WAIT takes at most a third of the call's deadline. Renewals, and each other runtime, have connections of
//! their own, which the WAIT does not delay. A heartbeat of the connection may have to wait behind a WAIT, so the
//! supervisor gives heartbeats more time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::{Cmd, Pipeline, Value};

use super::policy::Copies;
use crate::backend::redis::config::Durability;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, SessionState};
use crate::backend::redis::units::millis;

/// The time limit of one confirmation is the call's deadline divided by this number. The call may first have to wait
/// for the confirmation of another call. If its own confirmation fails, there must be time left to release the grant.
const SHARE_OF_DEADLINE: u32 = 3;

/// Confirms the writes of one connection.
#[derive(Debug)]
pub(crate) struct Confirmer {
    durability: Durability,
    /// The number of the last write that needs a confirmation.
    written: AtomicU64,
    /// The last confirmation. The mutex is locked while a confirmation is in progress.
    last: tokio::sync::Mutex<Round>,
}

/// The result of one confirmation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    /// The number of the last write that this confirmation covers.
    covers: u64,
    copies: Copies,
    patience: Duration,
}

impl Round {
    /// Returns whether write `number` needs no further WAIT: either this confirmation has found enough copies of the
    /// write, or it has waited at least as long for them as a further WAIT would.
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

/// Returns the time limit of one confirmation in a call with this deadline. The server needs whole milliseconds.
pub(crate) fn patience(deadline: Duration) -> Duration {
    Duration::from_millis(millis(deadline / SHARE_OF_DEADLINE))
}

/// The confirmation of a grant if the same pipeline requested it; otherwise `None`.
pub(crate) type Confirmed = Option<Result<(), Failure>>;

impl Confirmer {
    /// Sends a command that grants a lock. If no confirmation is in progress, the same pipeline also requests a
    /// confirmation. Otherwise the caller must [confirm](Self::confirm) the grant afterwards, together with other
    /// grants.
    pub(crate) async fn grant<S: SessionState>(
        &self,
        connection: &Connection<S>,
        command: &Cmd,
        deadline: Duration,
    ) -> Result<(Value, Confirmed), Failure> {
        // Does not wait for the mutex: a grant must not wait for the confirmation of another grant.
        let Ok(mut last) = self.last.try_lock() else { return Ok((connection.send(command).await?, None)) };
        let (durability, patience) = (self.durability, patience(deadline));
        // A write gets its number when it has been answered, so every numbered write was executed before this WAIT.
        let covers = self.written.load(Ordering::Acquire);
        let mut both = Pipeline::with_capacity(2);
        // The grant comes first, because WAIT covers the earlier writes of this connection. If the key is held, the
        // command writes nothing, and WAIT confirms only earlier writes.
        both.add_command(command.clone()).add_command(durability.command(patience));
        let mut answers = connection.send_all(&both).await?.into_iter();
        let answer = match answers.next().unwrap_or_default() {
            // The command failed, so the answer to the confirmation does not matter.
            Value::ServerError(error) => return Err(connection.noted(Failure::of_reply(&error))),
            answer => answer,
        };
        let copies = match durability.read(&answers.next().unwrap_or_default()) {
            Ok(copies) => copies,
            // The confirmation failed, but the lock may be granted. With the answer to the grant, the caller can
            // release the lock.
            Err(failure) => return Ok((answer, Some(Err(connection.noted(failure))))),
        };
        *last = Round { covers, copies, patience };
        Ok((answer, Some(last.verdict(durability))))
    }

    /// Waits until every answered write of this connection has enough copies. The error contains the number of copies.
    ///
    /// The caller's write must have been sent over this connection, because WAIT confirms only writes of its own
    /// connection.
    pub(crate) async fn confirm<S: SessionState>(
        &self,
        connection: &Connection<S>,
        deadline: Duration,
    ) -> Result<(), Failure> {
        let (durability, patience) = (self.durability, patience(deadline));
        // The write gets its number before the wait for the mutex, so that a confirmation that starts meanwhile covers
        // this write.
        let number = self.written.fetch_add(1, Ordering::AcqRel) + 1;
        // The caller that holds the mutex may no longer be polled. Then this caller sends its own WAIT.
        let Ok(mut last) = tokio::time::timeout(patience, self.last.lock()).await else {
            let answer = connection.send(&durability.command(patience)).await?;
            return Round { covers: number, copies: durability.read(&answer)?, patience }.verdict(durability);
        };
        // While this caller waited, the confirmation of another caller may have covered this write.
        if !last.settles(number, durability, patience) {
            // The number is read before WAIT is sent: a write that gets its number later may be executed after the
            // WAIT.
            let covers = self.written.load(Ordering::Acquire);
            // The mutex is held across this await. If this caller is dropped here, `last` keeps its old value, so the
            // next caller sends its own WAIT.
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
