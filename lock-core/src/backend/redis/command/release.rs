//! Releases a lock, or removes a queue entry.

use std::time::Duration;

use ::redis::{Cmd, Value};

use super::acquire::fence_ttl;
use super::reply::code;
use super::server::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::{Connection, Role, SessionState};
use crate::backend::redis::scripts::Script;
use crate::backend::redis::units::millis;
use crate::backend::{Claim, FencingToken, Mode, Released};
use crate::error::LockErrorKind;
use crate::key::Key;
use crate::owner::{Owner, OwnerToken};

impl<R: Role> Server<R> {
    /// Releases the lock if this owner holds it. If `keep_for` is given, the key stays locked for that time. If the
    /// owner waits, its queue entry is removed.
    pub(crate) async fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> Result<Released, Failure> {
        // The script needs no time limit. A late release does no harm, because it releases only a grant of this owner,
        // and no owner is granted twice.
        let connection = self.connections.get().await?;
        let keep_for = keep_for.filter(|keep| !keep.is_zero());
        read(connection.run(Script::Release, &command(&connection, claim, keep_for)).await)
    }
}

fn command<S: SessionState>(connection: &Connection<S>, claim: &Claim, keep_for: Option<Duration>) -> Cmd {
    let mut command = connection.scripts.call(Script::Release, claim.keys().map(Key::as_str), 6, 64);
    command.arg(&unmarked(&claim.owner.token())[..]);
    let needs_value = needs_value(claim);
    // Without these arguments, the script runs its short path.
    if needs_value || !claim.more.is_empty() || claim.own_fence().is_some() || keep_for.is_some() {
        command.arg(&*code(claim));
        match needs_value {
            false => command.arg(""),
            true => command.arg(claim.record.to_value(&claim.owner.token())),
        };
        // The last fencing token that this process issued to a holder. The next owner gets a larger one (protocol.md,
        // ReleaseRaises).
        command.arg(claim.own_fence().map_or(0, FencingToken::get)).arg(millis(fence_ttl(claim.ttl)));
        command.arg(keep_for.map_or(0, millis));
    }
    command
}

/// Returns the beginning of an exclusive grant's value while no claim waits: the owner token and a space. The space
/// becomes the mark when a claim waits.
pub(crate) fn unmarked(token: &OwnerToken) -> [u8; Owner::TOKEN_LEN + 1] {
    let mut head = [b' '; Owner::TOKEN_LEN + 1];
    head[..Owner::TOKEN_LEN].copy_from_slice(token.as_str().as_bytes());
    head
}

/// Returns whether the scripts need the whole stored value to find the grant, because the owner may be one of several
/// holders. For an exclusive grant, the token is enough.
pub(crate) fn needs_value(claim: &Claim) -> bool {
    claim.mode != Mode::Exclusive || claim.may_be_shared()
}

fn read(answer: Result<Value, Failure>) -> Result<Released, Failure> {
    match answer {
        Ok(Value::Int(1)) => Ok(Released::Released),
        // The lease has expired, or the answer to an earlier release was lost. The two cases cannot be distinguished.
        Ok(Value::Int(0)) => Ok(Released::Expired),
        Ok(Value::Int(-1)) => Ok(Released::Taken),
        Ok(other) => Err(Failure::unexpected(&other)),
        // If the key has data of another type, another program uses it, and this owner has no lock there.
        Err(failure) if failure.kind() == LockErrorKind::InvalidRequest => Ok(Released::Taken),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_its_meaning() {
        let table = [(1, Released::Released), (0, Released::Expired), (-1, Released::Taken)];
        for (number, expected) in table {
            assert_eq!(read(Ok(Value::Int(number))).expect("a verdict"), expected);
        }
        assert!(read(Ok(Value::Okay)).is_err());
        let other_data =
            Failure::of_text("WRONGTYPE Operation against a key holding the wrong kind of value");
        assert_eq!(read(Err(other_data)).expect("a verdict"), Released::Taken);
        assert!(read(Err(Failure::of_text("BUSY Redis is busy"))).is_err());
    }
}
