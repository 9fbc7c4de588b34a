//! Releasing a lock, downgrading it, and taking it away.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::code;
use super::server::{Server, micros, number, texts};
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{Connection, Parameter, text};
use crate::backend::remote::Message;
use crate::backend::{Claim, FencingToken, GrantId, Mode, Released, Renewal};
use crate::key::Key;

impl Server {
    /// Releases the grant or the queue entry of a claim.
    pub(crate) async fn release(&self, claim: &Claim, keep: Option<Duration>) -> Result<Released, Failure> {
        let (owner, mode, own) = (claim.owner.token(), code(claim.mode), own_fence(claim));
        let of_one = keep.is_none() && claim.more.is_empty();
        let successor = claim.successor().filter(|_| of_one);
        let ahead = || claim.mark_release_ahead();
        let alone = claim.is_granted_alone() && !claim.is_verified();
        if of_one && own == 0 && alone && successor.is_none() && self.give_alone(claim, ahead).await? {
            return Ok(Released::Released);
        }
        let statements = &self.shared().statements;
        let live = self.connections.get().await?;
        let (statement, parameters) = if let Some(next) = successor {
            let parameters = vec![
                text(claim.key.as_str()),
                text(owner.as_str()),
                text(next.token().as_str()),
                micros(claim.ttl),
                number(own),
            ];
            (statements.release_to.as_str(), parameters)
        } else if of_one && own == 0 {
            self.let_go(claim, live.is_own())
        } else {
            let keep = match keep {
                None => (Box::new(None::<i64>) as Box<_>, Type::INT8),
                Some(keep) => micros(keep),
            };
            let parameters = vec![texts(claim.keys()), text(owner.as_str()), text(mode), keep, number(own)];
            (statements.release.as_str(), parameters)
        };
        self.send_release(&live, statement, parameters, claim, ahead).await
    }

    /// Returns the statement that ends the grant of a claim for one key.
    pub(super) fn let_go(&self, claim: &Claim, own: bool) -> (&str, Vec<Parameter>) {
        let (owner, mode) = (claim.owner.token(), code(claim.mode));
        let parameters = vec![text(claim.key.as_str()), text(owner.as_str()), text(mode)];
        (self.shared().statements.let_go.of(own), parameters)
    }

    /// Releases an exclusive grant for one key whose row is left for the next one. Returns whether it did: the row may
    /// not be alone any more.
    pub(super) async fn give_alone(&self, claim: &Claim, ahead: impl FnOnce()) -> Result<bool, Failure> {
        let live = self.connections.get().await?;
        if !live.is_own() || claim.mode != Mode::Exclusive {
            return Ok(false);
        }
        let (alone, key) = (Arc::clone(&self.alone), claim.key.clone());
        // Also where the caller has given up.
        let answered = move |answer: Result<&[Row], &Failure>| {
            if answer.is_ok_and(|rows| !rows.is_empty()) {
                alone.note(&key);
            }
        };
        let parameters = vec![text(claim.key.as_str()), text(claim.owner.token().as_str())];
        let statement = &self.shared().statements.give_alone;
        let rows = live.query_with(statement, parameters, ahead, answered).await?;
        Ok(!rows.is_empty())
    }

    /// Sends a release. The next holder is notified by its answer, where that is of the same process.
    pub(super) async fn send_release(
        &self,
        live: &Arc<Connection>,
        statement: &str,
        parameters: Vec<Parameter>,
        claim: &Claim,
        ahead: impl FnOnce(),
    ) -> Result<Released, Failure> {
        let (listeners, process) = (Arc::clone(self.shared().listeners()), claim.owner.process());
        // Also where the caller has given up: the new holder of this process is notified by nothing else.
        let answered = move |answer: Result<&[Row], &Failure>| {
            let verdict = answer.ok().and_then(text_of).and_then(|text| verdict(process, text));
            if let Some((_, Some(message))) = verdict {
                message.deliver(&listeners, process);
            }
        };
        // All claims of a runtime share the connection, and the server runs their statements one after another.
        let rows = live.query_with(statement, parameters, ahead, answered).await?;
        let verdict = text_of(&rows).and_then(|text| verdict(process, text));
        verdict.map(|(released, _)| released).ok_or_else(|| Failure::unexpected("another verdict"))
    }

    /// Turns the exclusive grant of a claim of one key into a shared one.
    pub(crate) async fn downgrade(&self, claim: &Claim) -> Result<Renewal, Failure> {
        let parameters =
            vec![text(claim.key.as_str()), text(claim.owner.token().as_str()), micros(claim.ttl)];
        claim.mark_shared();
        let answer = self.answer(&self.shared().statements.downgrade, parameters).await?;
        match answer.verdict {
            1 => Ok(answer.granted(claim)?.into()),
            0 => Ok(Renewal::NotOwned),
            _ => Err(answer.unexpected()),
        }
    }

    pub(crate) async fn force_release(&self, key: &Key, id: &GrantId) -> Result<bool, Failure> {
        let parameters = vec![text(key.as_str()), text(id.as_str())];
        let (rows, _) = self.rows(&self.shared().statements.force_release, parameters).await?;
        let done = rows.first().and_then(|row| row.try_get(0).ok());
        done.ok_or_else(|| Failure::unexpected("no verdict"))
    }
}

fn text_of(rows: &[Row]) -> Option<&str> {
    rows.first()?.try_get(0).ok()
}

/// Reads the answer to a release, with the grant of the next holder if that is of the same process; see hand_off.sql.
fn verdict(process: u128, text: &str) -> Option<(Released, Option<Message<'_>>)> {
    match text {
        "1" => Some((Released::Released, None)),
        // Also the answer to a repeated release whose first answer was lost. The caller cannot tell the two apart.
        "0" => Some((Released::Expired, None)),
        "-1" => Some((Released::Taken, None)),
        _ => match Message::parse(process, text) {
            granted @ Some(Message::Granted(..)) => Some((Released::Released, granted)),
            _ => None,
        },
    }
}

/// Returns the last fencing token that the process of a grant numbered; 0 for none.
pub(super) fn own_fence(claim: &Claim) -> i64 {
    claim.own_fence().map_or(0, FencingToken::get_i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    #[test]
    fn the_answer_to_a_release_may_tell_the_next_holder() {
        let (here, elsewhere) =
            (OwnerSource::new().expect("random bytes"), OwnerSource::new().expect("random bytes"));
        let next = here.mint();
        let process = next.process();
        let granted = format!("granted {} 3", next.token().as_str());
        let table = [
            ("1", Some((Released::Released, None))),
            ("0", Some((Released::Expired, None))),
            ("-1", Some((Released::Taken, None))),
            (&granted, Some((Released::Released, Some(Message::Granted(next, 3))))),
            ("", None),
            ("2", None),
            ("contended k", None),
            ("granted nobody 3", None),
        ];
        for (text, expected) in table {
            assert_eq!(verdict(process, text), expected, "{text}");
        }
        assert_eq!(verdict(elsewhere.mint().process(), &granted), None, "an owner of another process");
    }
}
