//! Tests the memory store: one key against a simple model, many waiters for one key, claims of several keys, and the
//! waits.

mod crowd;
mod model;
mod multi;
mod store;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Claim, Mode, Queue};
use crate::key::Key;
use crate::owner::{Identity, OwnerRecord, OwnerSource};

const TTL: Duration = Duration::from_secs(10);

/// Makes claims of different owners of one process.
struct Claims {
    owners: OwnerSource,
    record: OwnerRecord,
}

impl Claims {
    fn new() -> Self {
        let identity = Arc::new(Identity::of_this_process("test"));
        Self { owners: OwnerSource::new().expect("random bytes"), record: OwnerRecord::new(identity, None) }
    }

    fn claim(&self, key: &str, mode: Mode, queue: Queue) -> Claim {
        let key = Key::new(key).expect("a key");
        let claim = Claim::new(key, self.owners.mint(), TTL, self.record.clone());
        Claim { mode, queue, ..claim }
    }

    fn exclusive(&self, key: &str) -> Claim {
        self.claim(key, Mode::Exclusive, Queue::Barging)
    }

    fn fifo(&self, key: &str, mode: Mode) -> Claim {
        self.claim(key, mode, Queue::Fifo)
    }
}
