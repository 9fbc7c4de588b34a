//! Releases locks, downgrades them, and releases them by force.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::parameter::{micros, number, texts};
use super::server::Server;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::link::text;
use crate::backend::remote::{Listeners, Message};
use crate::backend::{Claim, FencingToken, GrantId, Released, Renewal};
use crate::key::Key;

impl Server {
    pub(crate) async fn release(&self, claim: &Claim, keep: Option<Duration>) -> Result<Released, Failure> {
        let (owner, mode, own) = (claim.owner.token(), claim.mode.code(), own_fence(claim));
        let statements = &self.shared().statements;
        let live = self.connections.get().await?;
        let (statement, parameters) = if keep.is_none() && claim.more.is_empty() && own == 0 {
            let statement = if live.is_own() { &statements.let_go } else { &statements.let_go_with_settings };
            (statement, vec![text(claim.key.as_str()), text(owner.as_str()), text(mode)])
        } else {
            let keep = match keep {
                None => (Box::new(None::<i64>) as Box<_>, Type::INT8),
                Some(keep) => micros(keep),
            };
            let parameters = vec![texts(claim.keys()), text(owner.as_str()), text(mode), keep, number(own)];
            (&statements.release, parameters)
        };
        let (listeners, process) = (Arc::clone(self.shared().listeners()), claim.owner.process());
        let (connection, statement) = (Arc::clone(&live), live.statement(statement));
        // A next holder in this process is notified inside the call, which runs to its end even if this future is
        // dropped.
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

/// Reads the answer to a release. If the next holder is in the same process, notifies it, because the server does not.
fn delivered(rows: &[Row], listeners: &Listeners, process: u128) -> Result<Released, Failure> {
    let text = rows.first().and_then(|row| row.try_get(0).ok());
    let (released, message) =
        text.and_then(|text| verdict(process, text)).ok_or_else(|| Failure::unexpected("another verdict"))?;
    if let Some(message) = message {
        message.deliver(listeners, process);
    }
    Ok(released)
}

/// Reads the answer to a release. If the next holder is in the same process, the answer contains the grant of that
/// holder; see short.sql.
fn verdict(process: u128, text: &str) -> Option<(Released, Option<Message<'_>>)> {
    match text {
        "1" => Some((Released::Released, None)),
        // The lease has expired, or an earlier request of this release has succeeded and its answer was lost. The
        // caller cannot distinguish the two cases.
        "0" => Some((Released::Expired, None)),
        "-1" => Some((Released::Taken, None)),
        _ => match Message::parse(process, text) {
            granted @ Some(Message::Granted(..)) => Some((Released::Released, granted)),
            _ => None,
        },
    }
}

/// Returns the last fencing token that the process itself assigned for a grant; 0 if there is none.
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
