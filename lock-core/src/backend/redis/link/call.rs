//! Sends script calls, loads scripts that the server has forgotten, and reads the server's clock from the answers.

use ::redis::{Cmd, Value};

use super::connection::Connection;
use super::session_state::SessionState;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::scripts::Script;
use crate::clock::{Clock, Moment};

/// The answer of a script, `{verdict, now, ..}`: the verdict, the server's time, and further elements.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) verdict: i64,
    /// The server's time, in us.
    pub(crate) now: i64,
    /// The moment at which the request was sent.
    pub(crate) sent: Moment,
    parts: Vec<Value>,
}

impl Reply {
    /// Reads an answer. There are two short forms. A number means: granted at that time, and no claim waits. A text
    /// means: granted at that time, which is also the fencing token, and the waiters were not counted.
    fn read(answer: Value, sent: Moment) -> Result<Self, Failure> {
        let parts = match answer {
            Value::Int(now) => vec![Value::Int(1), Value::Int(now), Value::Int(0)],
            Value::BulkString(text) => {
                let now = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                let now = now.map(Value::Int).ok_or_else(|| Failure::unexpected(&Value::BulkString(text)))?;
                vec![Value::Int(1), now.clone(), Value::Nil, now]
            }
            Value::Array(parts) => parts,
            other => return Err(Failure::unexpected(&other)),
        };
        match parts.as_slice() {
            [Value::Int(verdict), Value::Int(now), ..] => {
                Ok(Self { verdict: *verdict, now: *now, sent, parts })
            }
            _ => Err(Failure::unexpected(&Value::Array(parts))),
        }
    }

    /// Returns the elements after the verdict and the time.
    pub(crate) fn rest(&self) -> &[Value] {
        &self.parts[2..]
    }

    /// Returns the failure for an answer that no version of the script sends.
    pub(crate) fn unexpected(&self) -> Failure {
        Failure::unexpected(&Value::Array(self.parts.clone()))
    }
}

impl<S: SessionState> Connection<S> {
    /// Calls a script that answers `{verdict, now, ..}`, and updates the estimate of the server's clock.
    pub(crate) async fn call(&self, script: Script, command: &Cmd) -> Result<Reply, Failure> {
        // The time is read before the request is sent, because the lease counts from here. If the script must be
        // loaded, the request is sent twice. The lease then still counts from the first request and only ends earlier.
        let sent = Clock::Suspend.now();
        let answer = self.run(script, command).await?;
        self.reply(answer, sent)
    }

    /// Reads the answer to a request that was sent at `sent`. All answers pass through this function, so every answer
    /// updates the estimate of the server's clock.
    pub(crate) fn reply(&self, answer: Value, sent: Moment) -> Result<Reply, Failure> {
        let reply = Reply::read(answer, sent)?;
        self.learn(reply.now, sent, Clock::Suspend.now());
        Ok(reply)
    }

    /// Sends an EVALSHA. If the server has forgotten the script, loads it and sends the command again.
    pub(crate) async fn run(&self, script: Script, command: &Cmd) -> Result<Value, Failure> {
        match self.send(command).await {
            Err(failure) if failure.reaction == Reaction::LoadScripts => {}
            answer => return answer,
        }
        // The server has not executed the command, so it may be sent again. After a SCRIPT FLUSH, many callers may load
        // the same script at once. A second load changes nothing.
        self.send(&self.scripts.load(script)).await?;
        self.send(command).await
    }

    /// Records a reading of the server's clock: it showed `now` (in us) at a moment between `sent` and `received`.
    pub(crate) fn learn(&self, now: i64, sent: Moment, received: Moment) {
        self.clock.learn(now, sent, received);
        self.session.clock(now, sent, received);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let sent = Clock::Suspend.now();
        let answer = Value::Array([1, 99, 3, 4].map(Value::Int).to_vec());
        let reply = Reply::read(answer, sent).expect("numbers");
        assert_eq!((reply.verdict, reply.now, reply.sent), (1, 99, sent));
        assert_eq!(reply.rest(), [Value::Int(3), Value::Int(4)]);
        let shortest = Reply::read(Value::Int(7), sent).expect("a time");
        assert_eq!((shortest.verdict, shortest.now, shortest.rest()), (1, 7, &[Value::Int(0)][..]));
        for answer in [Value::Nil, Value::Okay, Value::Array(vec![Value::Int(1)])] {
            assert!(Reply::read(answer.clone(), sent).is_err(), "{answer:?}");
        }
    }
}
