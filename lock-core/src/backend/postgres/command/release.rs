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

/// The answer to a release that has left the row of the grant for the next one; see give_alone.sql.
const ALONE: &str = "alone";

impl Server {
    /// Releases the grant or the queue entry of a claim.
    pub(crate) async fn release(&self, claim: &Claim, keep: Option<Duration>) -> Result<Released, Failure> {
        let statements = &self.shared().statements;
        let live = self.connections.get().await?;
        let (owner, mode, own) = (claim.owner.token(), code(claim.mode), own_fence(claim));
        let successor = claim.successor().filter(|_| keep.is_none() && claim.more.is_empty());
        let (statement, parameters) = if let Some(next) = successor {
            let of_one = vec![
                text(claim.key.as_str()),
                text(owner.as_str()),
                text(next.token().as_str()),
                micros(claim.ttl),
                number(own),
            ];
            (statements.release_to.as_str(), of_one)
        } else if keep.is_none() && claim.more.is_empty() && own == 0 {
            self.let_go(claim, live.is_own(), claim.is_granted_alone() && !claim.is_verified())
        } else {
            let keep = match keep {
                None => (Box::new(None::<i64>) as Box<_>, Type::INT8),
                Some(keep) => micros(keep),
            };
            let of_all = vec![texts(claim.keys()), text(owner.as_str()), text(mode), keep, number(own)];
            (statements.release.as_str(), of_all)
        };
        self.send_release(&live, statement, parameters, claim, || claim.mark_release_ahead()).await
    }

    /// Returns the statement that ends the grant of a claim for one key. `alone` is whether its row may still be alone.
    pub(super) fn let_go(&self, claim: &Claim, own: bool, alone: bool) -> (&str, Vec<Parameter>) {
        let statements = &self.shared().statements;
        let mut parameters = vec![text(claim.key.as_str()), text(claim.owner.token().as_str())];
        if own && alone && claim.mode == Mode::Exclusive {
            return (&statements.give_alone, parameters);
        }
        parameters.push(text(code(claim.mode)));
        (statements.let_go.of(own), parameters)
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
        let (alone, key) = (Arc::clone(&self.alone), claim.key.clone());
        // Also where the caller has given up: the new holder of this process is notified by nothing else.
        let answered = move |answer: Result<&[Row], &Failure>| {
            let text = answer.ok().and_then(text_of);
            if text == Some(ALONE) {
                alone.note(&key);
            } else if let Some((_, Some(message))) = text.and_then(|text| verdict(process, text)) {
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
        "1" | ALONE => Some((Released::Released, None)),
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
            ("alone", Some((Released::Released, None))),
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
