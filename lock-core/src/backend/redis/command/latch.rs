//! Implements count-down latches.

use std::iter;

use ::redis::Value;

use super::reply::conflict;
use super::server::Server;
use crate::backend::conflict::Use;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::digits;
use crate::backend::redis::primary::Primary;
use crate::backend::redis::scripts::Script;
use crate::backend::redis::units::millis;
use crate::backend::{LatchState, LatchStep};
use crate::key::Key;

impl Server<Primary> {
    pub(crate) async fn latch(&self, key: &Key, step: &LatchStep) -> Result<LatchState, Failure> {
        let live = self.connections.get().await?;
        let (name, who, of) = match step {
            LatchStep::Set { count, owner, .. } => ("set", owner.token().as_str().to_owned(), *count),
            LatchStep::CountDown { owner, .. } => ("count", owner.token().as_str().to_owned(), 0),
            LatchStep::Wait { process, .. } => {
                // Subscribes before the step is sent, so that no message after the step is missed.
                live.subscribe_waiters(self.shared().listeners(), key).await?;
                ("wait", digits(*process), 0)
            }
            LatchStep::Look => ("look", String::new(), 0),
        };
        let mut command = live.scripts.call(Script::Latch, iter::once(key.as_str()), 4, who.len() + 60);
        command.arg(name).arg(step.ttl().map_or(0, millis)).arg(who).arg(of);
        let reply = live.call(Script::Latch, &command).await?;
        match (reply.verdict, reply.rest()) {
            (1, [Value::Int(left), Value::Int(by_us), ..]) => {
                let left = u32::try_from(*left).map_err(|_| reply.unexpected())?;
                Ok(LatchState::Set { left, by_us: *by_us == 1, sent: reply.sent })
            }
            (0, _) => Ok(LatchState::Unset),
            (-2, rest) => Err(conflict(rest, Use::Latch)),
            _ => Err(reply.unexpected()),
        }
    }
}
