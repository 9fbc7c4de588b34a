//! Acquires locks, queues claims, and sends the heartbeats of waiters.

use super::server::Server;
use super::unsent::RequestKind;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::Listening;
use crate::backend::{Ask, Attempt, Claim, Heartbeat};
use crate::error::LockErrorKind;

impl Server {
    /// Makes one attempt at a claim.
    pub(crate) async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt, Failure> {
        if ask.enqueues() || claim.notify_holder {
            // Listens before the request is sent, because the notification may arrive before the answer.
            let heard = self.heard().await;
            if claim.notify_holder && !heard {
                let text = "no notifications can be listened for, which a lock that lingers needs";
                return Err(Failure::new(LockErrorKind::Unavailable, text));
            }
        } else {
            self.listening.iter().for_each(Listening::start);
        }
        let kind = if claim.more.is_empty() { RequestKind::Attempt } else { RequestKind::AttemptAll };
        let answer = self.ask(claim, kind, ask).await?;
        match answer.verdict {
            1 => Ok(Attempt::Granted(answer.granted(claim)?)),
            0 => Ok(Attempt::Held(answer.held(claim))),
            -2 => Err(answer.clash(claim)),
            _ => Err(answer.unexpected()),
        }
    }

    /// Sends one heartbeat of a queued claim. A heartbeat can acquire the lock, and may do so even after this future
    /// was dropped.
    pub(crate) async fn heartbeat(&self, claim: &Claim) -> Result<Heartbeat, Failure> {
        let answer = self.ask(claim, RequestKind::Heartbeat, Ask::Try).await?;
        match answer.verdict {
            1 => Ok(Heartbeat::Granted(answer.granted(claim)?)),
            0 => Ok(Heartbeat::Waiting(answer.held(claim))),
            -1 => Ok(Heartbeat::Gone),
            _ => Err(answer.unexpected()),
        }
    }

    /// Returns whether notifications for all listeners arrive. Waits a moment for the listening connection.
    async fn heard(&self) -> bool {
        match &self.listening {
            Some(listening) => listening.heard().await,
            None => false,
        }
    }
}
