//! Releasing a lock, downgrading it, and taking it away.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::code;
use super::server::{Server, micros, number, texts};
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::{Connection, Parameter, text};
use crate::backend::remote::{Listeners, Message};
use crate::backend::{Claim, FencingToken, GrantId, Mode, Released, Renewal};
use crate::key::Key;

impl Server {
    /// Releases the grant or the queue entry of a claim.
    pub(crate) async fn release(&self, claim: &Claim, keep: Option<Duration>) -> Result<Released, Failure> {
        let (owner, mode, own) = (claim.owner.token(), code(claim.mode), own_fence(claim));
        let of_one = keep.is_none() && claim.more.is_empty();
        let statements = &self.shared().statements;
        let live = self.connections.get().await?;
        if of_one && own == 0 && live.is_own() && self.may_be_alone(claim) {
            return self.give_alone(&live, claim).await;
        }
        let (statement, parameters) = if of_one && own == 0 {
            self.let_go(claim, live.is_own())
        } else {
            let keep = match keep {
                None => (Box::new(None::<i64>) as Box<_>, Type::INT8),
                Some(keep) => micros(keep),
            };
            let parameters = vec![texts(claim.keys()), text(owner.as_str()), text(mode), keep, number(own)];
            (statements.release.as_str(), parameters)
        };
        self.send_release(&live, statement, parameters, claim).await
    }

    /// Returns the statement that ends the grant of a claim for one key.
    pub(super) fn let_go(&self, claim: &Claim, own: bool) -> (&str, Vec<Parameter>) {
        let (owner, mode) = (claim.owner.token(), code(claim.mode));
        let parameters = vec![text(claim.key.as_str()), text(owner.as_str()), text(mode)];
        (self.shared().statements.let_go.of(own), parameters)
    }

    /// Releases an exclusive grant for one key whose row may be left for the next one. If the row is not alone any more,
    /// another statement is sent, as a part of the same call: the caller may be gone by then, and others wait. For a session
    /// that has the settings of the library.
    pub(super) async fn give_alone(
        &self,
        live: &Arc<Connection>,
        claim: &Claim,
    ) -> Result<Released, Failure> {
        let statements = &self.shared().statements;
        let (give, let_go) =
            (live.statement(&statements.give_alone), live.statement(statements.let_go.of(true)));
        let (connection, listeners) = (Arc::clone(live), Arc::clone(self.shared().listeners()));
        let (left, key, owner) = (Arc::clone(&self.shared().left), claim.key.clone(), claim.owner);
        let call = async move {
            let parameters = || vec![text(key.as_str()), text(owner.token().as_str())];
            if !connection.send(&give, parameters()).await?.is_empty() {
                left.note(&key);
                return Ok(Released::Released);
            }
            let mut parameters = parameters();
            parameters.push(text(code(Mode::Exclusive)));
            let rows = connection.send(&let_go, parameters).await?;
            delivered(&rows, &listeners, owner.process())
        };
        live.call(call).await
    }

    /// Returns whether the row of a grant may be alone: it was so, and nothing is known that has changed that.
    fn may_be_alone(&self, claim: &Claim) -> bool {
        let changed = claim.is_verified() || claim.may_be_shared() || claim.is_fenced() && !claim.fencing;
        let was_alone = claim.is_granted_alone() && claim.mode == Mode::Exclusive;
        was_alone && !changed && !self.shared().wanted.take(&claim.key)
    }

    /// Sends a release. The next holder is notified by its answer, where that is of the same process.
    pub(super) async fn send_release(
        &self,
        live: &Arc<Connection>,
        statement: &str,
        parameters: Vec<Parameter>,
        claim: &Claim,
    ) -> Result<Released, Failure> {
        let (listeners, process) = (Arc::clone(self.shared().listeners()), claim.owner.process());
        let (connection, statement) = (Arc::clone(live), live.statement(statement));
        // All claims of a runtime share the connection, and the server runs their statements one after another.
        let call = async move {
            let rows = connection.send(&statement, parameters).await?;
            delivered(&rows, &listeners, process)
        };
        live.call(call).await
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

/// Reads the answer to a release. Tells the next holder, if that is of the same process: nothing else does.
fn delivered(rows: &[Row], listeners: &Listeners, process: u128) -> Result<Released, Failure> {
    let text = rows.first().and_then(|row| row.try_get(0).ok());
    let (released, message) =
        text.and_then(|text| verdict(process, text)).ok_or_else(|| Failure::unexpected("another verdict"))?;
    if let Some(message) = message {
        message.deliver(listeners, process);
    }
    Ok(released)
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
