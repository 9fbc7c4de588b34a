//! Acquiring a lock, queueing for it, and the heartbeat of a waiter.

use super::answer::record_of;
use super::line::{What, name_of};
use super::server::{Server, micros};
use crate::backend::conflict::Use;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{Listening, text};
use crate::backend::{Ask, Attempt, Claim, Grant, Heartbeat, Mode};
use crate::clock::Clock;
use crate::error::LockErrorKind;

impl Server {
    /// Makes one attempt.
    pub(crate) async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt, Failure> {
        if ask.enqueues() || claim.notify_holder {
            // Before the request is sent, because the notification may arrive before the answer.
            let heard = self.heard().await;
            if claim.notify_holder && !heard {
                let text = "no notifications can be listened for, which a lock that lingers needs";
                return Err(Failure::new(LockErrorKind::Unavailable, text));
            }
        } else {
            self.listening.iter().for_each(Listening::start);
        }
        if let Some(granted) = self.take_alone(claim).await? {
            return Ok(Attempt::Granted(granted));
        }
        let what = if claim.more.is_empty() { What::Attempt } else { What::AttemptAll };
        let answer = self.ask(claim, what, ask).await?;
        match answer.verdict {
            1 => {
                if answer.alone {
                    claim.mark_granted_alone();
                }
                Ok(Attempt::Granted(answer.granted(claim)?))
            }
            0 => Ok(Attempt::Held(answer.held(claim))),
            -2 => Err(answer.conflict(Use::Lock(claim.mode))),
            _ => Err(answer.unexpected()),
        }
    }

    /// Takes a key that this process released last, in the fewest steps. `None`: others have used it since, or it is no
    /// such key.
    async fn take_alone(&self, claim: &Claim) -> Result<Option<Grant>, Failure> {
        let short = claim.mode == Mode::Exclusive && !claim.fencing && claim.more.is_empty();
        if !short || !self.shared().left.take(&claim.key) {
            return Ok(None);
        }
        let turn = self.stuck.entry(name_of(claim)).turn().await?;
        // A caller that waits for a connection here has sent nothing.
        let live = self.connections.get().await?;
        if !live.is_own() {
            return Ok(None);
        }
        // From here on the request may take effect, so a dropped claim must be released.
        claim.mark_sent();
        let parameters = vec![
            text(claim.key.as_str()),
            text(claim.owner.token().as_str()),
            text(record_of(claim)),
            micros(claim.ttl),
        ];
        // Before the request leaves, because a lease counts from here.
        let sent = Clock::Suspend.now();
        let statement = &self.shared().statements.take_alone;
        let rows = live.query_with(statement, parameters, |answer| turn.settle(answer.err())).await?;
        match rows.first().map(|row| row.try_get(0)) {
            None => Ok(None),
            Some(Ok(true)) => {
                claim.mark_granted_alone();
                Ok(Some(Grant::new(sent, claim.ttl).with_waiters(Some(0))))
            }
            Some(Ok(false)) => self.give_back(claim).await.map(|()| None),
            Some(Err(_)) => Err(Failure::unexpected("another type")),
        }
    }

    /// Gives a grant back that nobody was told of. A transaction of the application relies on the lease before it.
    async fn give_back(&self, claim: &Claim) -> Result<(), Failure> {
        let live = self.connections.get().await.map_err(Failure::in_doubt)?;
        // It has the grant until this is answered.
        let given = if live.is_own() {
            self.give_alone(&live, claim).await.map(drop)
        } else {
            let (statement, parameters) = self.let_go(claim, false);
            self.send_release(&live, statement, parameters, claim).await.map(drop)
        };
        given.map_err(Failure::in_doubt)
    }

    /// Sends one heartbeat of a queued claim. It may be served the lock, so it may take effect after its caller is gone.
    pub(crate) async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat, Failure> {
        let answer = self.ask(claim, What::Heartbeat, Ask::Try).await?;
        match answer.verdict {
            1 => Ok(Heartbeat::Granted(answer.granted(claim)?)),
            0 => Ok(Heartbeat::Waiting(answer.held(claim))),
            -1 => Ok(Heartbeat::Gone),
            _ => Err(answer.unexpected()),
        }
    }

    /// Returns whether the notifications of all listeners can be heard.
    async fn heard(&self) -> bool {
        match &self.listening {
            Some(listening) => listening.heard().await,
            None => false,
        }
    }
}
