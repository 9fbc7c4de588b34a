//! Sets the number of shards of the key map.

pub(super) const SHARDS: usize = 32;
