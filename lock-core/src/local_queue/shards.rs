//! The distribution of the keys over the shards.

pub(super) const SHARDS: usize = 32;
