//! How the keys are spread.

pub(super) const SHARDS: usize = 32;
