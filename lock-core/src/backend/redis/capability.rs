//! What this backend can do.

use super::config::Config;
use crate::backend::{Capability, Fencing, WAITER_LEASE, Waiting};

/// What the scripts can do.
pub(super) fn capability(config: &Config) -> Capability {
    let durable = config.durability.is_some();
    Capability {
        shared: true,
        permits: true,
        several: true,
        latches: true,
        lists: true,
        marks_sent: true,
        waiting: Waiting::Queue { waiter_lease: WAITER_LEASE, tells_holder: true, confirms: durable },
        // What a process numbers by itself has no copies.
        fencing: if durable { Fencing::Counter } else { Fencing::StoreTime },
        ..Capability::exclusive("redis")
    }
}
