//! Shortens a text that is too long for a key to a readable prefix, `#`, and half of its SHA-256.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::namespace::MAX_NAMESPACE_LEN;

/// The greatest length of a key in bytes, namespace included.
pub(super) const MAX_LEN: usize = 512;

/// Separates the prefix from the hash. No rendered value contains it: values are encoded.
const SEPARATOR: char = '#';
const HASH_BYTES: usize = 16;
/// The separator and the hash in hexadecimal.
const TAIL_LEN: usize = 1 + 2 * HASH_BYTES;
const PREFIX_LEN: usize = MAX_LEN - TAIL_LEN;
/// The length of the shortest shortened text: a prefix is cut at most three bytes early, inside a character of four
/// bytes.
const SHORTEST_OUTPUT: usize = PREFIX_LEN - 3 + TAIL_LEN;
/// From this length on, a text with a namespace and a `:` before it may be as long as a shortened text.
const MISTAKABLE_LEN: usize = SHORTEST_OUTPUT - (MAX_NAMESPACE_LEN + 1);

/// Returns whether `text` is too long for a key.
pub(super) fn is_too_long(text: &str) -> bool {
    text.len() > MAX_LEN
}

/// Returns whether `text` could be mistaken for a shortened text, with or without a namespace.
///
/// The values of a template such as `<a>#<b>` can spell the prefix and the hash of a longer key. Rendering therefore
/// shortens such a text too, so that only a collision of the hash makes two rendered keys equal.
/// [`Key::new`](super::Key::new) does not shorten it: a key from the store or a log must name the same lock.
pub(super) fn is_mistakable(text: &str) -> bool {
    let Some(tail) = text.len().checked_sub(TAIL_LEN).and_then(|at| text.get(at..)) else {
        return false;
    };
    text.len() >= MISTAKABLE_LEN
        && tail
            .strip_prefix(SEPARATOR)
            .is_some_and(|hash| hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// Returns at most [`MAX_LEN`] bytes that stand for `text`.
///
/// Processes with different versions of this crate must agree on the result: it must never change.
pub(super) fn shorten(text: &str) -> String {
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let mut short = String::with_capacity(MAX_LEN);
    short.push_str(prefix(text));
    short.push(SEPARATOR);
    for byte in &hash[..HASH_BYTES] {
        let _ = write!(short, "{byte:02x}");
    }
    short
}

/// Returns the longest prefix of `text` that fits and does not end inside a character.
fn prefix(text: &str) -> &str {
    let mut end = text.len().min(PREFIX_LEN);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
