//! The fencing token.

use std::fmt;

/// A number that grows with every new owner of a key. The protected resource refuses a number that is smaller than the
/// last one.
///
/// If the clock of a store is set back, the store continues from the last number that it remembers. The order breaks
/// only if two faults coincide: a process that has made tokens for its own hand-offs, without the store, dies before
/// its next renewal reports them, and the clock is set back at the same time. The next owner may then get a number that
/// was already in use.
///
/// See Martin Kleppmann, *How to do distributed locking* (2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FencingToken(u64);

impl FencingToken {
    /// Makes the token with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number. Store it with the data that the lock protects, and refuse a write with a *smaller* number. A
    /// write with the same number comes from the same owner. The number fits into a signed 64-bit column.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number for a signed 64-bit column: `UPDATE .. SET .., fence = $token WHERE .. AND fence <= $token`.
    ///
    /// The numbers of all stores of this crate fit into such a column. If a number of your own store is larger, this
    /// returns `i64::MAX`.
    #[must_use]
    pub const fn get_i64(self) -> i64 {
        if self.0 > i64::MAX.cast_unsigned() { i64::MAX } else { self.0.cast_signed() }
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
