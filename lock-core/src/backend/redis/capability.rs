//! What this backend can do.

use super::config::Config;
use crate::backend::Capability;

/// What the scripts can do.
pub(super) fn capability(config: &Config) -> Capability {
    let durable = config.durability.is_some();
    Capability {
        shared: true,
        permits: true,
        fifo: true,
        beats: true,
        tells_waiters: true,
        several: true,
        latches: true,
        lists: true,
        fencing: true,
        // What a process numbers by itself has no copies.
        fence_is_time: !durable,
        confirms: durable,
        marks_sent: true,
        ..Capability::exclusive("redis")
    }
}
