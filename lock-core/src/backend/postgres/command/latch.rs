//! Implements count-down latches.

use super::parameter::{int, micros, number};
use super::server::Server;
use crate::backend::conflict::Use;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::text;
use crate::backend::{LatchState, LatchStep};
use crate::key::Key;

impl Server {
    /// Performs one step of a latch.
    pub(crate) async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState, Failure> {
        let (name, who, of) = match step {
            LatchStep::Set { count, owner, .. } => ("set", owner.token().as_str().to_owned(), *count),
            LatchStep::CountDown { owner, .. } => ("count", owner.token().as_str().to_owned(), 0),
            LatchStep::Wait { process, .. } => {
                // Starts listening before the step, so that no notification after the step is missed.
                if let Some(listening) = &self.listening {
                    listening.heard().await;
                }
                ("wait", format!("{process:032x}"), 0)
            }
            LatchStep::Look => ("look", String::new(), 0),
        };
        let of = i32::try_from(of).map_err(|_| {
            let text = "a latch of this store counts down from 2,147,483,647 at most";
            Failure::new(crate::error::LockErrorKind::InvalidRequest, text)
        })?;
        let parameters = vec![
            text(key.as_str()),
            text(name),
            step.ttl().map_or_else(|| number(0), micros),
            text(who),
            int(of),
        ];
        let answer = self.answer(&self.shared().statements.latch, parameters).await?;
        match (answer.verdict, answer.waiting.and_then(|left| u32::try_from(left).ok())) {
            (1, Some(left)) => Ok(LatchState::Set { left, by_us: answer.own, sent: answer.sent }),
            (0, _) => Ok(LatchState::Unset),
            (-2, _) => Err(answer.conflict(Use::Latch)),
            _ => Err(answer.unexpected()),
        }
    }
}
