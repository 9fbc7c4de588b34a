//! Keys that cannot be locks, because this backend keeps something else there.

use crate::backend::Claim;
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// Refuses what this backend does not do, before any I/O.
pub(super) fn supported<'a>(mut keys: impl Iterator<Item = &'a Key>) -> Result<()> {
    match keys.find(|key| is_helper(key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let detail = "keys like `{..}:f` are where this backend keeps what belongs to another lock: choose \
                          another name";
            Err(LockError::new(LockErrorKind::InvalidKey, detail).with_key(key))
        }
    }
}

/// Refuses the downgrade of several keys, before any I/O.
pub(super) fn has_shared_mode(claim: &Claim) -> Result<()> {
    if claim.more.is_empty() {
        return Ok(());
    }
    let detail = "a lock of several keys has no shared mode";
    Err(LockError::new(LockErrorKind::Unsupported, detail).with_key(&claim.key))
}

/// Whether a key has the form of a helper key: `{key}:` and one letter.
pub(super) fn is_helper(key: &str) -> bool {
    let tail = key.as_bytes().last_chunk::<3>();
    key.starts_with('{') && tail.is_some_and(|tail| tail.starts_with(b"}:") && tail[2].is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_helper_keys_are_taken() {
        for key in ["{a}:f", "{shop:order:42}:q", "{}:w"] {
            assert!(is_helper(key), "{key}");
        }
        for key in ["a", "{a}", "{a}:", "{a}:ff", "a}:f", "{a}:1", "{orders}:42"] {
            assert!(!is_helper(key), "{key}");
        }
    }
}
