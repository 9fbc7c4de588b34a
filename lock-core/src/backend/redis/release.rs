//! Giving a lock back.

use std::time::Duration;

use ::redis::Value;

use super::client::{Redis, millis};
use super::error::Failure;
use super::scripts::Script;
use crate::backend::{Claim, Released};
use crate::error::LockErrorKind;

impl Redis {
    /// Frees the key if it is this owner's.
    pub(super) async fn free(&self, claim: &Claim) -> Result<Released, Failure> {
        let live = self.links.live().await?;
        let (key, token) = (claim.key.as_str(), claim.owner.token());
        let mut command = live.scripts.call(Script::Release, 1, 2, key.len() + 48);
        command.arg(key).arg(token.as_str());
        read(live.run(Script::Release, &command).await)
    }

    /// Gives the lock up and keeps the key taken.
    pub(super) async fn keep(&self, claim: &Claim, keep: Duration) -> Result<Released, Failure> {
        let live = self.links.live().await?;
        let (key, token) = (claim.key.as_str(), claim.owner.token());
        let mut command = live.scripts.call(Script::Keep, 1, 3, key.len() + 68);
        command.arg(key).arg(token.as_str()).arg(millis(keep));
        read(live.run(Script::Keep, &command).await)
    }
}

fn read(answer: Result<Value, Failure>) -> Result<Released, Failure> {
    match answer {
        Ok(Value::Int(1)) => Ok(Released::Released),
        Ok(Value::Int(0)) => Ok(Released::Expired),
        Ok(Value::Int(-1)) => Ok(Released::Taken),
        Ok(other) => Err(Failure::unexpected(&other)),
        // Data of another type is not this owner's lock: somebody else has the key.
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
