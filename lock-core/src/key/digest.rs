//! Shortens a text that is too long for a key. The result consists of a readable prefix, `#`, and half of the SHA-256
//! hash of the text.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::namespace::MAX_NAMESPACE_LEN;
use crate::label::start;

/// The maximum length of a key in bytes, including its namespace.
pub(super) const MAX_LEN: usize = 512;

/// The separator between the prefix and the hash. Rendered values never contain it, because values are encoded.
const SEPARATOR: char = '#';
const HASH_BYTES: usize = 16;
/// The length of the separator and the hexadecimal hash.
const TAIL_LEN: usize = 1 + 2 * HASH_BYTES;
const PREFIX_LEN: usize = MAX_LEN - TAIL_LEN;
/// The minimum length of a shortened text. A prefix may be up to three bytes shorter, so that it does not end inside a
/// character of four bytes.
const SHORTEST_OUTPUT: usize = PREFIX_LEN - 3 + TAIL_LEN;
/// A text of at least this length can be as long as a shortened text after a namespace and a `:` are added.
const MISTAKABLE_LEN: usize = SHORTEST_OUTPUT - (MAX_NAMESPACE_LEN + 1);

pub(super) fn is_too_long(text: &str) -> bool {
    text.len() > MAX_LEN
}

/// Returns whether `text` could be mistaken for a shortened text, with or without a namespace.
///
/// The values of a template such as `<a>#<b>` can imitate the prefix and the hash of a longer key. So rendering
/// shortens such a text too, and two different rendered texts give the same key only if their hashes collide.
/// [`Key::new`](super::Key::new) does not shorten such a text, because the text of an existing key, copied from the
/// store or a log, must give the same key.
pub(super) fn is_mistakable(text: &str) -> bool {
    let Some(tail) = text.len().checked_sub(TAIL_LEN).and_then(|at| text.get(at..)) else {
        return false;
    };
    text.len() >= MISTAKABLE_LEN
        && tail
            .strip_prefix(SEPARATOR)
            .is_some_and(|hash| hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// Returns a text of at most [`MAX_LEN`] bytes that represents `text`.
///
/// The result must never change, because processes with different versions of this crate must agree on it.
pub(super) fn shorten(text: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let mut short = String::with_capacity(MAX_LEN);
    short.push_str(start(text, PREFIX_LEN));
    short.push(SEPARATOR);
    for byte in &hash[..HASH_BYTES] {
        let _ = write!(short, "{byte:02x}");
    }
    short
}
