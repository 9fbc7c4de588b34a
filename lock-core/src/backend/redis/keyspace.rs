//! The names on a server: lock keys, reserved keys, and the prefixes of the channels.

use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// Which keys a server stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyspace {
    /// All keys.
    Whole,
    /// The keys of some slots. The server is a node of a Cluster, so a script must name every key that it uses, and
    /// each channel belongs to a slot.
    Slots,
}

/// The prefix of every channel's name. On a Cluster, the hash tag of a slot follows the prefix.
pub(crate) const CHANNEL: &str = "lock:wake:";

/// The prefix of the names of the holders' channels. A message on such a channel reaches all nodes of a Cluster,
/// because a holder may be subscribed on any node.
pub(crate) const HELD_CHANNEL: &str = "lock:wake:held:";

/// Returns an error if one of the keys has the form of a helper key. Does no I/O.
pub(crate) fn supported<'a>(mut keys: impl Iterator<Item = &'a Key>) -> Result<()> {
    match keys.find(|key| is_helper(key.as_str())) {
        None => Ok(()),
        Some(key) => {
            let detail = "keys like `{..}:f` are where this backend keeps what belongs to another lock: choose \
                          another name";
            Err(LockError::new(LockErrorKind::InvalidKey, detail).with_key(key))
        }
    }
}

/// Returns whether a key has the form of a helper key: `{key}:` and one letter.
pub(crate) fn is_helper(key: &str) -> bool {
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
