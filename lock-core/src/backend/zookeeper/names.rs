//! Builds the names of nodes: the directory of a key, and the parts of a node's name.
//!
//! The names have Curator's form: a lock has a directory, which contains nodes such as `_c_<uuid>-lock-0000000042`.
//! After a lost answer, Curator finds its own node by the uuid. This library derives the uuid from the owner.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use super::config::Names;
use crate::backend::Mode;
use crate::owner::Owner;

/// The part of the name that marks a reader of Curator's `InterProcessReadWriteLock`.
const READER: &str = "__READ__";
/// The part of the name that marks a writer of Curator's `InterProcessReadWriteLock`.
const WRITER: &str = "__WRIT__";
/// The part of the name that marks a reader of kazoo.
const KAZOO_READER: &str = "__rlock__";
/// The part of the name that marks Curator's `InterProcessMutex`.
const MUTEX: &str = "lock-";
/// The part of the name that marks a permit. The number of permits follows. Curator has no such name.
const PERMIT: &str = "permit-";
/// The width of a sequence number.
const DIGITS: usize = 10;

/// Returns the directory of `key` below `base`.
///
/// The directory is one node, so that no key is inside the directory of another key. `/`, `%`, all characters outside
/// of ASCII and all characters that ZooKeeper does not allow in a name are percent-encoded.
pub(super) fn directory(base: &str, key: &str) -> String {
    let mut path = String::with_capacity(base.len() + key.len() + 1);
    path.push_str(base);
    path.push('/');
    let all_dots = key.bytes().all(|byte| byte == b'.');
    for byte in key.bytes() {
        match byte {
            b'.' if all_dots => path.push_str("%2E"),
            b' '..=b'~' if byte != b'/' && byte != b'%' => path.push(char::from(byte)),
            _ => {
                let _ = write!(path, "%{byte:02X}");
            }
        }
    }
    path
}

/// Returns the key whose directory has this name; `None` if no key has such a directory.
pub(super) fn key_of(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let key = String::from_utf8(bytes).ok()?;
    // A name that encodes the key in another way is not the name of the key's directory.
    Some(key).filter(|key| directory("", key).strip_prefix('/') == Some(name))
}

/// Returns the *mark* of `owner`, with which the names of all its nodes begin. The mark does not reveal the token of
/// the owner.
pub(super) fn mark(owner: Owner) -> String {
    let digest = Sha256::digest(owner.token().as_str().as_bytes());
    let mut mark = String::with_capacity(MARK_LEN);
    mark.push_str("_c_");
    for (at, byte) in digest.iter().take(16).enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            mark.push('-');
        }
        let _ = write!(mark, "{byte:02x}");
    }
    mark.push('-');
    mark
}

/// The length of a [`mark`].
const MARK_LEN: usize = 40;

/// Returns the mark with which a name begins, if there is one.
pub(super) fn mark_of(name: &str) -> Option<&str> {
    name.get(..MARK_LEN).filter(|mark| mark.starts_with("_c_") && mark.ends_with('-'))
}

/// Returns the beginning of the path of a node, up to the end of its mark. All nodes of one owner at one key share this
/// beginning.
pub(super) fn path_prefix(path: &str) -> Option<&str> {
    let at = path.rfind('/')? + 1;
    mark_of(path.get(at..)?)?;
    path.get(..at + MARK_LEN)
}

/// Returns the name of a node of `mode` without its sequence number.
pub(super) fn prefix(mark: &str, mode: Mode, names: Names) -> String {
    match (mode, names) {
        (Mode::Exclusive, Names::Mutex) => format!("{mark}{MUTEX}"),
        (Mode::Exclusive, Names::ReadWrite) => format!("{mark}{WRITER}"),
        (Mode::Shared, _) => format!("{mark}{READER}"),
        (Mode::Permit { of }, _) => format!("{mark}{PERMIT}{of}-"),
    }
}

/// Returns the name of the reader's node that can replace the node `name` in its place.
pub(super) fn as_reader(mark: &str, name: &str) -> Option<String> {
    split(name).map(|(_, number)| format!("{mark}{READER}{number:010}"))
}

/// Returns the mode and the sequence number in a name; `None` for a node that is not in the queue.
///
/// A node with a sequence number but without a known mode is exclusive, such as a node of `InterProcessMutex`, of
/// kazoo's `Lock`, or of another program.
pub(super) fn place(name: &str) -> Option<(Mode, i32)> {
    let (kind, number) = split(name)?;
    let mode = if kind.ends_with(READER) || kind.ends_with(KAZOO_READER) {
        Mode::Shared
    } else {
        permits(kind).map_or(Mode::Exclusive, |of| Mode::Permit { of })
    };
    Some((mode, number))
}

/// Returns the number of permits in the part of a node's name before its sequence number: 7 for `..permit-7-`. Returns
/// `None` if the node is not that of a permit.
fn permits(kind: &str) -> Option<u32> {
    let kind = mark_of(kind).map(|mark| &kind[mark.len()..])?;
    kind.strip_prefix(PERMIT)?.strip_suffix('-')?.parse().ok()
}

/// Splits a name into the part before its sequence number, and the number. ZooKeeper writes ten digits. After
/// 2147483647 the counter continues with -2147483648, which has eleven characters. Later it reaches -000000001, which
/// has ten.
fn split(name: &str) -> Option<(&str, i32)> {
    let at = |width: usize| {
        let (kind, number) = name.split_at_checked(name.len().checked_sub(width)?)?;
        let digits = number.strip_prefix('-').unwrap_or(number);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        Some((kind, number.parse().ok()?)).filter(|_| is_number)
    };
    // A `-` before ten digits is a sign only if `-` or `_` precedes it, because `lock-` also ends with a `-`.
    let long = at(DIGITS + 1)
        .filter(|(kind, number): &(&str, i32)| *number <= -1_000_000_000 && kind.ends_with(['-', '_']));
    long.or_else(|| at(DIGITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::OwnerSource;

    #[test]
    fn a_key_is_one_node() {
        for (key, expected) in [
            ("order:42", "/locks/order:42"),
            ("a/b", "/locks/a%2Fb"),
            ("a%2Fb", "/locks/a%252Fb"),
            (".", "/locks/%2E"),
            ("..", "/locks/%2E%2E"),
            ("a.b", "/locks/a.b"),
            ("\0\n", "/locks/%00%0A"),
            ("é", "/locks/%C3%A9"),
            ("🔒", "/locks/%F0%9F%94%92"),
        ] {
            assert_eq!(directory("/locks", key), expected);
            assert_eq!(key_of(&expected["/locks/".len()..]).as_deref(), Some(key));
        }
        for name in ["%2f", "%61", "%", "%2", "%zz", "%FF", "é", "+1", "%+1"] {
            let is_key = name == "+1";
            assert_eq!(key_of(name).is_some(), is_key, "{name}");
        }
    }

    #[test]
    fn an_owner_finds_its_own_node_and_shows_nothing_of_its_token() {
        let owner = OwnerSource::new().expect("random bytes").mint();
        let (own, token) = (mark(owner), owner.token());
        assert_eq!((own.len(), own.clone()), (MARK_LEN, mark(owner)));
        assert!(!token.as_str().contains(&own[3..11]), "{own}");
        let name = format!("{}0000000007", prefix(&own, Mode::Exclusive, Names::Mutex));
        assert_eq!(mark_of(&name), Some(own.as_str()));
        assert_eq!(mark_of("0123456789abcdef0123456789abcdef__lock__0000000007"), None);
    }

    #[test]
    fn what_a_name_says() {
        let uuid = "_c_01234567-89ab-cdef-0123-456789abcdef-";
        let permit = |of| Some((Mode::Permit { of }, 3));
        let table = [
            (format!("{uuid}lock-0000000042"), Some((Mode::Exclusive, 42))),
            (format!("{uuid}__WRIT__0000000042"), Some((Mode::Exclusive, 42))),
            (format!("{uuid}__READ__0000000042"), Some((Mode::Shared, 42))),
            (format!("{uuid}permit-7-0000000003"), permit(7)),
            // Here the counter has passed its largest number.
            (format!("{uuid}lock-2147483647"), Some((Mode::Exclusive, i32::MAX))),
            (format!("{uuid}lock--2147483648"), Some((Mode::Exclusive, i32::MIN))),
            (format!("{uuid}__READ__-2147483648"), Some((Mode::Shared, i32::MIN))),
            (format!("{uuid}lock--000000001"), Some((Mode::Exclusive, -1))),
            // These are names of kazoo.
            ("0123456789abcdef0123456789abcdef__lock__0000000001".to_owned(), Some((Mode::Exclusive, 1))),
            ("0123456789abcdef0123456789abcdef__rlock__0000000001".to_owned(), Some((Mode::Shared, 1))),
            // This node has no protection prefix.
            ("lock-0000000009".to_owned(), Some((Mode::Exclusive, 9))),
            ("leases".to_owned(), None),
            ("lock-".to_owned(), None),
            ("lock-99999999999".to_owned(), None),
            ("é".to_owned(), None),
        ];
        for (name, expected) in table {
            assert_eq!(place(&name), expected, "{name}");
        }
    }

    #[test]
    fn what_the_paths_of_one_owner_at_one_key_have_in_common() {
        let uuid = "_c_01234567-89ab-cdef-0123-456789abcdef-";
        for (path, expected) in [
            (format!("/locks/k/{uuid}lock-0000000042"), Some(format!("/locks/k/{uuid}"))),
            (format!("/locks/{uuid}/{uuid}__READ__0000000001"), Some(format!("/locks/{uuid}/{uuid}"))),
            // Here the key has the form of a mark.
            (format!("/locks/{uuid}/lock-0000000001"), None),
            (format!("{uuid}lock-0000000042"), None),
            ("/locks/k/é".to_owned(), None),
        ] {
            assert_eq!(path_prefix(&path), expected.as_deref(), "{path}");
        }
    }

    #[test]
    fn a_prefix_and_its_number_are_read_back() {
        let own = mark(OwnerSource::new().expect("random bytes").mint());
        for names in [Names::Mutex, Names::ReadWrite] {
            for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 12 }] {
                for number in [0, 7, i32::MAX, i32::MIN, -1_000_000_000, -999_999_999, -1] {
                    let name = format!("{}{number:010}", prefix(&own, mode, names));
                    assert_eq!(place(&name), Some((mode, number)), "{name}");
                    let reader = as_reader(&own, &name).expect("it has a number");
                    assert_eq!(place(&reader), Some((Mode::Shared, number)), "{reader}");
                }
            }
        }
    }
}
