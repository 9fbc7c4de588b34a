//! Renews many grants in one round trip.

use std::pin::pin;

use ::redis::{Cmd, Pipeline, Value};

use super::acquire::fence_ttl;
use super::release::needs_value;
use super::server::Server;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::link::{Connection, Role, SessionState};
use crate::backend::redis::scripts::Script;
use crate::backend::redis::units::millis;
use crate::backend::remote::deadline;
use crate::backend::remote::renewal::{self, KeyLease, of_grants};
use crate::backend::{FencingToken, Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::owner::Owner;

/// The maximum number of locks in one script. A script with so many locks takes about 100 us, during which the server
/// serves no other client.
pub(crate) const PER_SCRIPT: usize = 100;

pub(crate) type Verdict = renewal::Verdict<Reaction>;

impl<R: Role> Server<R> {
    /// Renews a batch. If one script fails, the verdicts of the other scripts still count.
    pub(crate) async fn renew(&self, batch: &[Renew<'_>]) -> Vec<Renewal> {
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else {
            return Vec::new();
        };
        let deadline = deadline::of_renewal(self.timeout(), shortest);
        let locks: Vec<KeyLease<'_>> = batch.iter().flat_map(KeyLease::of_grant).collect();
        let chunks: Vec<&[KeyLease<'_>]> = locks.chunks(PER_SCRIPT).collect();
        // A missing answer is neither a renewal nor a loss, so the renewer retries.
        let answers = self.connections.within(deadline, pin!(self.renew_chunks(&chunks, false))).await;
        let answers = answers.unwrap_or_else(|failure| vec![Verdict::Unknown(failure); locks.len()]);
        of_grants(batch, answers, |failure| self.error(failure))
    }

    /// Sends all calls of the script in one pipeline. If the server has forgotten the script, repeats the refused calls
    /// in a second pipeline. Returns the answers in the order of the locks. `asking` is for locks of a slot that is
    /// being moved to this node.
    pub(crate) async fn renew_chunks(
        &self,
        chunks: &[&[KeyLease<'_>]],
        asking: bool,
    ) -> Result<Vec<Verdict>, Failure> {
        let live = self.connections.get().await?;
        let all: Vec<usize> = (0..chunks.len()).collect();
        // Stores the answers by chunk and not by arrival, because the second pipeline returns only the answers to the
        // repeated calls.
        let mut answers = vec![None; chunks.len()];
        let mut sent = run(&live, (chunks, asking), &all, &mut answers).await?;
        let forgotten: Vec<usize> =
            all.into_iter().filter(|&at| is_forgotten(answers[at].as_ref())).collect();
        if !forgotten.is_empty() {
            live.send(&live.scripts.load(Script::Renew)).await?;
            // If both pipelines returned answers, the earlier moment is used for all of them: a lease may count from
            // any moment before its request was sent.
            let again = run(&live, (chunks, asking), &forgotten, &mut answers).await?;
            if forgotten.len() == chunks.len() {
                sent = again;
            }
        }
        let read = chunks
            .iter()
            .zip(answers)
            .flat_map(|(chunk, answer)| read(&live, chunk.len(), &answer.unwrap_or_default(), sent));
        let mut verdicts: Vec<Verdict> = read.collect();
        let shortest = chunks.iter().flat_map(|chunk| chunk.iter()).map(|lock| lock.ttl).min();
        let deadline = deadline::of_renewal(self.timeout(), shortest.unwrap_or_default());
        let renewed = |verdict: &Verdict| matches!(verdict, Verdict::Renewed(..));
        if verdicts.iter().any(renewed) {
            // The renewer has its own connection, which works even if the holder's runtime has ended or is blocked. So
            // with this subscription, a forced release is still reported.
            live.subscribe_holders(self.shared().shared_listeners());
        }
        if verdicts.iter().any(renewed)
            && let Err(failure) = R::confirm(&live, deadline).await
        {
            // Only the previous lease is certain: the primary has the longer lease, but after a failover the next
            // primary may not have it.
            let unconfirmed = verdicts.iter_mut().filter(|verdict| matches!(verdict, Verdict::Renewed(..)));
            unconfirmed.for_each(|verdict| *verdict = Verdict::Unknown(failure.clone().in_doubt()));
        }
        Ok(verdicts)
    }
}

/// Sends the scripts of the chunks with the numbers `which`. Stores their answers in `answers`, and returns the time of
/// sending.
async fn run<S: SessionState>(
    live: &Connection<S>,
    (chunks, asking): (&[&[KeyLease<'_>]], bool),
    which: &[usize],
    answers: &mut [Option<Value>],
) -> Result<Moment, Failure> {
    let mut commands = Pipeline::with_capacity(2 * which.len());
    for &at in which {
        if asking {
            commands.cmd("ASKING");
        }
        commands.add_command(script(live, chunks[at]));
    }
    // The time is read before the first byte is sent: a lease that counts from the answer would end later than on the
    // server.
    let sent = Clock::Suspend.now();
    let received = live.send_all(&commands).await?;
    // With ASKING, every second answer belongs to an ASKING.
    let received = received.into_iter().skip(usize::from(asking)).step_by(1 + usize::from(asking));
    for (&at, answer) in which.iter().zip(received) {
        answers[at] = Some(answer);
    }
    Ok(sent)
}

fn script<S: SessionState>(live: &Connection<S>, chunk: &[KeyLease<'_>]) -> Cmd {
    let keys = chunk.iter().map(|lock| lock.key.as_str());
    let bytes = (Owner::TOKEN_LEN + 10) * chunk.len();
    let mut command = live.scripts.call(Script::Renew, keys, 2 * chunk.len(), bytes);
    for lock in chunk {
        let token = lock.claim.owner.token();
        match needs_value(lock.claim) {
            false => command.arg(token.as_str()),
            true => command.arg(lock.claim.record.to_value(&token)),
        };
        command.arg(millis(lock.ttl));
    }
    // The fencing tokens, if any, follow the pairs. Without fencing tokens, the script runs its short path.
    for (number, lock) in chunk.iter().enumerate() {
        if lock.claim.is_fenced() {
            let own = lock.claim.own_fence().map_or(0, FencingToken::get);
            command.arg(number + 1).arg(own).arg(millis(fence_ttl(lock.ttl)));
        }
    }
    command
}

pub(crate) fn is_forgotten(answer: Option<&Value>) -> bool {
    match answer {
        Some(Value::ServerError(error)) => Failure::of_reply(error).reaction == Reaction::LoadScripts,
        _ => false,
    }
}

fn read<S: SessionState>(live: &Connection<S>, locks: usize, answer: &Value, sent: Moment) -> Vec<Verdict> {
    match answer {
        // Verdicts are matched by their position, so an answer with another number of verdicts is invalid.
        Value::Array(answers) if answers.len() == locks => {
            answers.iter().map(|answer| verdict(answer, sent)).collect()
        }
        Value::ServerError(error) => vec![Verdict::Unknown(live.noted(Failure::of_reply(error))); locks],
        other => vec![Verdict::Unknown(Failure::unexpected(other)); locks],
    }
}

fn verdict(answer: &Value, sent: Moment) -> Verdict {
    match answer {
        Value::Int(0) => Verdict::NotOwned,
        Value::Int(number) if *number > 0 => {
            Verdict::Renewed(sent, usize::try_from(number - 1).unwrap_or(usize::MAX))
        }
        // This error concerns one lock. The other locks are still renewed.
        Value::BulkString(text) => Verdict::Unknown(Failure::of_text(&String::from_utf8_lossy(text))),
        other => Verdict::Unknown(Failure::unexpected(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_number_of_waiters_and_one() {
        let of = |answer| verdict(&answer, Clock::Suspend.now());
        assert!(matches!(of(Value::Int(0)), Verdict::NotOwned));
        assert!(matches!(of(Value::Int(1)), Verdict::Renewed(_, 0)));
        assert!(matches!(of(Value::Int(3)), Verdict::Renewed(_, 2)));
        assert!(matches!(of(Value::Int(-1)), Verdict::Unknown(_)));
        assert!(matches!(of(Value::BulkString(b"WRONGTYPE other data".to_vec())), Verdict::Unknown(_)));
    }
}
