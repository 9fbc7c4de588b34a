//! Computes the number of an advisory lock from its key.

use sha2::{Digest, Sha256};

use crate::key::Key;

/// Returns the number of the advisory lock for a key: the first eight bytes of its SHA-256. The number is the same in
/// all versions. The docs contain the computation in SQL, so that other programs can use it.
pub(super) fn number_of(key: &Key) -> i64 {
    let hash = Sha256::digest(key.as_str().as_bytes());
    hash.iter().take(8).fold(0, |number, byte| (number << 8) | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number is `('x' || left(encode(sha256(convert_to(key, 'UTF8')), 'hex'), 16))::bit(64)::bigint`.
    #[test]
    fn numbers_stay_as_they_are() {
        for (key, id) in [("order:42", -2_708_853_543_617_250_617), ("k", -9_055_398_367_036_157_706)] {
            assert_eq!(number_of(&Key::new(key).expect("a key")), id, "{key}");
        }
    }
}
