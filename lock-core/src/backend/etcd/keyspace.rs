//! Defines the names of the stored keys.
//!
//! ```text
//! <key>/<name>     an entry of the queue of <key>: a holder or a waiter
//! ```
//!
//! `<name>` is the id of a lease of the process, with a number if the process has several entries in the queue. The
//! owner of an entry is in its value. `<key>` is the key with `%` and `/` percent-encoded, so that no stored key lies
//! under the prefix of another key. etcd's own lock recipe uses `<key>/` too, so `etcdctl lock order:42` waits in the
//! same queue.

use sha2::{Digest, Sha256};

use crate::key::Key;
use crate::owner::Owner;

/// The byte between a key and the name of an entry.
const SLASH: u8 = b'/';

/// Returns a key as it is stored: percent-encoded.
fn encoded(key: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 34);
    for byte in key.bytes() {
        match byte {
            b'%' => out.extend_from_slice(b"%25"),
            SLASH => out.extend_from_slice(b"%2F"),
            byte => out.push(byte),
        }
    }
    out
}

/// Decodes a key that [`encoded`] has encoded.
fn decoded(stored: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(stored).ok()?;
    Some(text.replace("%2F", "/").replace("%25", "%"))
}

/// Returns the range of the keys that begin with `prefix`: the first key of the range, and the first key after it.
fn range_of(prefix: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return (prefix, end);
        }
    }
    // The range of a prefix that is empty or has only 0xff bytes has no end. etcd represents this by a zero byte.
    (if prefix.is_empty() { vec![0] } else { prefix }, vec![0])
}

pub(super) fn line(key: &Key) -> (Vec<u8>, Vec<u8>) {
    let mut prefix = encoded(key.as_str());
    prefix.push(SLASH);
    range_of(prefix)
}

/// Returns the range of all stored keys whose key begins with `prefix`.
pub(super) fn beginning_with(prefix: &str) -> (Vec<u8>, Vec<u8>) {
    range_of(encoded(prefix))
}

/// Returns the stored key of the entry with this `number` that was created under the lease `id`. `line` is the
/// beginning of the stored keys of all entries in the queue.
pub(super) fn entry(line: &[u8], id: i64, number: usize) -> Vec<u8> {
    let name = if number == 0 { format!("{id:x}") } else { format!("{id:x}-{number}") };
    [line, name.as_bytes()].concat()
}

/// Returns the sort key of entries that one transaction has created. This sort key orders the entries by the number in
/// their names.
pub(super) fn order(stored: &[u8]) -> (usize, &[u8]) {
    (stored.len(), stored)
}

/// Returns the key of a stored entry; `None` for any other stored key.
pub(super) fn key_of_entry(stored: &[u8]) -> Option<String> {
    let mut parts = stored.split(|&byte| byte == SLASH);
    let (key, name, more) = (parts.next()?, parts.next()?, parts.next());
    if name.is_empty() || more.is_some() { None } else { decoded(key) }
}

/// Returns the id of the lease that keeps the keys of `owner` locked after their release. The id collides with another
/// id with a probability of 2^-63.
pub(super) fn keeping_lease(owner: Owner) -> i64 {
    let digest = Sha256::new().chain_update(b"keep ").chain_update(owner.token().as_str()).finalize();
    let id = digest[..8].iter().fold(0, |id, &byte| (id << 8) | i64::from(byte));
    // The id must be positive: 0 means no lease.
    (id & i64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_has_a_lease_for_what_it_keeps() {
        let owners = crate::owner::OwnerSource::new().expect("random bytes");
        let (one, other) = (owners.mint(), owners.mint());
        assert_eq!(keeping_lease(one), keeping_lease(one));
        assert!(keeping_lease(one) > 0 && keeping_lease(one) != keeping_lease(other));
    }

    #[test]
    fn no_key_is_a_part_of_another() {
        let texts = ["a", "a/", "a/b", "a%2Fb", "a%", "%", "a%f", "é/锁", "\0", "/"];
        for one in texts {
            let (from, to) = line(&Key::new(one).expect("a key"));
            for other in texts {
                let mut stored = encoded(other);
                stored.extend_from_slice(b"/name");
                assert_eq!(from <= stored && stored < to, one == other, "{other} in {one}");
                assert_eq!(key_of_entry(&stored).as_deref(), Some(other));
            }
        }
        assert_eq!(key_of_entry(&entry(b"a/", 0x1f, 2)).as_deref(), Some("a"));
        assert_eq!(key_of_entry(b"a"), None);
        assert_eq!(key_of_entry(b"a/b/c"), None);
        assert_eq!(beginning_with(""), (vec![0], vec![0]));
        assert_eq!(range_of(vec![1, 255]), (vec![1, 255], vec![2]));
    }
}
