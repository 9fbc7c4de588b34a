//! Renewing many grants in one round trip.

use std::time::Duration;

use ::redis::{Cmd, Pipeline, Value};

use super::client::{Redis, millis};
use super::connection::Live;
use super::error::{Failure, Reaction};
use super::scripts::Script;
use crate::backend::{Renew, Renewal};
use crate::clock::{Clock, Moment};
use crate::owner::Owner;

/// Locks in one script: it keeps the server for some 100 us, and nobody else is served meanwhile.
const PER_SCRIPT: usize = 100;
/// A renewal has its turn at a third of the lease; a quarter leaves time for another one before the lease is over.
const SHARE_OF_LEASE: u32 = 4;
/// No deadline is shorter than this: below it, an ordinary hiccup of the network would count as a failure.
const SHORTEST: Duration = Duration::from_millis(20);

impl Redis {
    /// Renews a batch. A script that fails leaves the others alone.
    pub(super) async fn renew_all(&self, batch: &[Renew<'_>]) -> Vec<Renewal> {
        let Some(shortest) = batch.iter().map(|renew| renew.ttl).min() else {
            return Vec::new();
        };
        let deadline = (shortest / SHARE_OF_LEASE).max(SHORTEST).min(self.timeout());
        let answers = match tokio::time::timeout(deadline, self.send_renewals(batch)).await {
            Ok(answers) => answers,
            Err(_) => Err(self.elapsed(deadline)),
        };
        match answers {
            Ok(answers) => answers
                .into_iter()
                .zip(batch)
                .map(|(answer, renew)| match answer {
                    Verdict::Renewed(sent) => Renewal::Renewed { sent, waiters: None },
                    Verdict::NotMine => Renewal::NotMine,
                    Verdict::Unknown(failure) => self.unknown(&failure, renew),
                })
                .collect(),
            Err(failure) => batch.iter().map(|renew| self.unknown(&failure, renew)).collect(),
        }
    }

    fn unknown(&self, failure: &Failure, renew: &Renew<'_>) -> Renewal {
        Renewal::Unknown(self.error(failure).with_key(&renew.claim.key))
    }

    /// All scripts in one pipeline, and those that the server has forgotten in a second one.
    async fn send_renewals(&self, batch: &[Renew<'_>]) -> Result<Vec<Verdict>, Failure> {
        let live = self.links.live().await?;
        let chunks: Vec<&[Renew<'_>]> = batch.chunks(PER_SCRIPT).collect();
        let all: Vec<usize> = (0..chunks.len()).collect();
        let mut answers = vec![None; chunks.len()];
        let mut sent = run(&live, &chunks, &all, &mut answers).await?;
        let forgotten: Vec<usize> =
            all.into_iter().filter(|&at| is_forgotten(answers[at].as_ref())).collect();
        if !forgotten.is_empty() {
            live.send(&Script::Renew.load()).await?;
            // The earlier moment counts for the answers of the first round; it is right for these too, only stricter.
            let again = run(&live, &chunks, &forgotten, &mut answers).await?;
            if forgotten.len() == chunks.len() {
                sent = again;
            }
        }
        let read = chunks
            .iter()
            .zip(answers)
            .flat_map(|(chunk, answer)| read(&live, chunk.len(), &answer.unwrap_or_default(), sent));
        Ok(read.collect())
    }
}

/// The answer for one lock.
#[derive(Clone, Debug)]
enum Verdict {
    Renewed(Moment),
    NotMine,
    Unknown(Failure),
}

/// Sends the scripts of the chunks numbered `which` and puts their answers into `answers`.
async fn run(
    live: &Live,
    chunks: &[&[Renew<'_>]],
    which: &[usize],
    answers: &mut [Option<Value>],
) -> Result<Moment, Failure> {
    let mut commands = Pipeline::with_capacity(which.len());
    for &at in which {
        commands.add_command(script(live, chunks[at]));
    }
    let sent = Clock::Suspend.now();
    let received = live.send_all(&commands).await?;
    for (&at, answer) in which.iter().zip(received) {
        answers[at] = Some(answer);
    }
    Ok(sent)
}

fn script(live: &Live, chunk: &[Renew<'_>]) -> Cmd {
    let keys: usize = chunk.iter().map(|renew| renew.claim.key.as_str().len()).sum();
    let mut command = live.scripts.call(
        Script::Renew,
        chunk.len(),
        3 * chunk.len(),
        keys + (Owner::TOKEN_LEN + 10) * chunk.len(),
    );
    for renew in chunk {
        command.arg(renew.claim.key.as_str());
    }
    for renew in chunk {
        command.arg(renew.claim.owner.token().as_str()).arg(millis(renew.ttl));
    }
    command
}

fn is_forgotten(answer: Option<&Value>) -> bool {
    match answer {
        Some(Value::ServerError(error)) => Failure::of_reply(error).reaction == Reaction::LoadScripts,
        _ => false,
    }
}

/// The verdicts of one script.
fn read(live: &Live, locks: usize, answer: &Value, sent: Moment) -> Vec<Verdict> {
    match answer {
        Value::Array(answers) if answers.len() == locks => {
            answers.iter().map(|answer| verdict(answer, sent)).collect()
        }
        Value::ServerError(error) => vec![Verdict::Unknown(live.noted(Failure::of_reply(error))); locks],
        other => vec![Verdict::Unknown(Failure::unexpected(other)); locks],
    }
}

fn verdict(answer: &Value, sent: Moment) -> Verdict {
    match answer {
        Value::Int(1) => Verdict::Renewed(sent),
        Value::Int(0) => Verdict::NotMine,
        Value::BulkString(text) => Verdict::Unknown(Failure::of_text(&String::from_utf8_lossy(text))),
        other => Verdict::Unknown(Failure::unexpected(other)),
    }
}
