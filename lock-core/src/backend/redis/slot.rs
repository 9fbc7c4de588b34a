//! Computes the slot of a key in a Cluster, which has 16,384 slots.
//!
//! Source: [Redis cluster specification](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/),
//! "Key distribution model" and "Hash tags".

use std::fmt::Write as _;

use once_cell::sync::Lazy;

use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

pub(crate) const SLOTS: u16 = 16_384;
/// The letters of the helper keys of a lock: see `scripts/lib.lua`.
const HELPERS: [char; 4] = ['q', 'w', 'f', 'l'];

/// Returns the slot of a key: the CRC16 of its hash tag, or of the whole key if it has no hash tag.
pub(crate) fn of_key(key: &str) -> u16 {
    crc16(tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// Returns the hash tag of a key: the text between the first `{` and the next `}`. An empty text is no hash tag.
fn tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

/// Computes CRC-16/XMODEM: polynomial 0x1021, no reflection, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| add(crc, *byte))
}

/// Returns the CRC of a text with `byte` appended. `crc` is the CRC of the text alone.
fn add(crc: u16, byte: u8) -> u16 {
    let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
    (0..8).fold(crc ^ (u16::from(byte) << 8), shift)
}

/// Returns whether helper keys can be in the slot of this key. If the key has no hash tag, its helper keys use the
/// whole key as their hash tag. A `}` in the key would end that tag too early.
fn can_have_helpers(key: &str) -> bool {
    tag(key).is_some() || !key.contains('}')
}

/// Returns an error if `key` cannot be a lock on a Cluster.
pub(crate) fn check_key(key: &Key) -> Result<()> {
    if can_have_helpers(key.as_str()) {
        return Ok(());
    }
    let detail = "a key with a `}` and no hash tag cannot be a lock on a Redis Cluster, because nothing else could be stored in \
                  its slot: write it as `{tag}rest`, or without the `}`";
    Err(LockError::new(LockErrorKind::InvalidKey, detail).with_key(key))
}

/// Returns the helper keys of a lock, with the names that the scripts use.
pub(crate) fn helpers(key: &str) -> impl Iterator<Item = String> {
    let mut names = String::with_capacity(2 * key.len() + 8);
    if let Some(tag) = tag(key) {
        let _ = write!(names, "{{{tag}}}");
    }
    let _ = write!(names, "{{{key}}}:");
    HELPERS.into_iter().map(move |letter| format!("{names}{letter}"))
}

/// A hash tag for each slot: the smallest number whose decimal text is in the slot.
static TAGS: Lazy<Vec<u32>> = Lazy::new(|| {
    let mut tags = vec![None; usize::from(SLOTS)];
    // The CRC of each number, computed from the CRC of the number without its last digit.
    let mut crcs: Vec<u16> = Vec::with_capacity(200_000);
    let (mut number, mut missing) = (0_u32, tags.len());
    while missing > 0 {
        let before = if number < 10 { 0 } else { crcs[number as usize / 10] };
        let crc = add(before, b'0' + (number % 10) as u8);
        crcs.push(crc);
        let tag = &mut tags[usize::from(crc % SLOTS)];
        if tag.is_none() {
            *tag = Some(number);
            missing -= 1;
        }
        number += 1;
    }
    tags.into_iter().flatten().collect()
});

/// Computes the hash tags in the names of the channels. This takes a while, so it happens when the library connects to
/// a Cluster, and not within the deadline of the first call that needs a name.
pub(crate) fn prepare() {
    Lazy::force(&TAGS);
}

/// Returns the prefix of the channel names of a slot. Each slot has its own channels, because a sharded message reaches
/// only the servers that have the slot of its channel. The name depends only on the slot, so that all processes use the
/// same name.
pub(crate) fn channel(slot: u16) -> String {
    tagged(crate::backend::redis::keyspace::CHANNEL, slot)
}

/// Returns `name` with a hash tag of `slot`.
pub(crate) fn tagged(name: &str, slot: u16) -> String {
    format!("{name}{{{}}}", TAGS[usize::from(slot)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are the examples of the specification and the answers of Redis 7.0.15 to `CLUSTER KEYSLOT`.
    #[test]
    fn the_slots_are_those_of_the_servers() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let table = [
            ("", 0),
            ("foo", 12_182),
            ("order:42", 8_691),
            ("{user1000}.following", 3_443),
            ("user1000", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("{bar", 4_015),
            ("foo{bar}{zap}", 5_061),
            ("bar", 5_061),
            ("a}b", 7_866),
        ];
        for (key, slot) in table {
            assert_eq!(of_key(key), slot, "{key}");
        }
    }

    #[test]
    fn helpers_are_in_the_slot_of_their_lock() {
        for key in ["order:42", "{user}:7", "a{b}c{d}", "a{b", "x{{y}z", "ü{ß}"] {
            assert!(can_have_helpers(key), "{key}");
            for helper in helpers(key) {
                assert_eq!(of_key(&helper), of_key(key), "{helper}");
                assert!(crate::backend::redis::keyspace::is_helper(&helper), "{helper}");
            }
        }
        for key in ["a}b", "{}a", "}{", "}"] {
            assert!(!can_have_helpers(key), "{key}");
        }
        assert_eq!(helpers("a").collect::<Vec<_>>(), ["{a}:q", "{a}:w", "{a}:f", "{a}:l"]);
        assert_eq!(helpers("x{y}z").next().as_deref(), Some("{y}{x{y}z}:q"));
    }

    #[test]
    fn every_slot_has_a_channel_in_it() {
        for slot in 0..SLOTS {
            assert_eq!(of_key(&channel(slot)), slot);
        }
    }

    /// All processes must use the same channel names, whatever version of this library they run.
    #[test]
    fn a_channel_is_named_by_the_least_number_that_does() {
        let least = |slot| (0_u32..).find(|number| of_key(&number.to_string()) == slot);
        for slot in [0, 1, 5_061, 12_182, SLOTS - 1] {
            assert_eq!(Some(TAGS[usize::from(slot)]), least(slot), "{slot}");
        }
    }
}
