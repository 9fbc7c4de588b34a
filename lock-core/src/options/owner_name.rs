//! What an owner name needs: a lock that could be taken over safely.

use super::options::Options;
use crate::backend::{Capability, Mode};
use crate::error::{LockError, LockErrorKind, Result};
use crate::kind::Kind;

/// The longest owner name in bytes.
const LONGEST: usize = 128;

impl Options {
    /// Refuses an owner name where no lock could ever be taken over safely.
    pub(super) fn check_owner(&self, kind: Kind, store: &Capability) -> Result<()> {
        let Some(owner) = self.owner.as_deref() else { return Ok(()) };
        if owner.is_empty() || owner.len() > LONGEST {
            let detail = format!("an owner name has 1 to {LONGEST} bytes, and this one {}", owner.len());
            return Err(invalid(detail));
        }
        if kind.mode() != Mode::Exclusive {
            return Err(not_as_a_whole());
        }
        if !self.fencing() {
            let detail = "an owner name needs the fencing token with the grant: what a dead process has sent may arrive after its \
                 lock was taken over; drop `fencing(false)`";
            return Err(invalid(detail.to_owned()));
        }
        if !store.lists {
            let detail = format!(
                "the {} store cannot say who holds its locks, so none can be taken over from a dead process of the same \
                 owner name",
                store.store
            );
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        Ok(())
    }

    /// Refuses an owner name for several keys.
    pub(crate) fn check_owner_of_several(&self) -> Result<()> {
        if self.owner.is_some() { Err(not_as_a_whole()) } else { Ok(()) }
    }
}

fn not_as_a_whole() -> LockError {
    let detail = "an owner name is for exclusive locks of one key: a lock that others share, or one of several keys, \
                  cannot be taken over as a whole";
    invalid(detail.to_owned())
}

fn invalid(detail: String) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, detail)
}
