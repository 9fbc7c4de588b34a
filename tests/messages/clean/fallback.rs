//! A user with every warning denied sees none of a fallback.
#![deny(warnings, missing_docs, unused, unreachable_pub)]
#![forbid(unsafe_code)]

//! Falls back.

use lock_core::{LockError, LockManager, distributed_lock};

/// A shop.
#[derive(Debug)]
pub struct Shop {
    locks: LockManager,
}

impl Shop {
    #[distributed_lock(
        key = "order:<id>:<_gift>",
        strategy = "retry",
        wait = "2s",
        backoff(base = "10ms", max = "200ms"),
        fallback = Self::later,
        handle = lock,
        manager = self.locks
    )]
    #[allow(missing_docs, reason = "the generated line is there")]
    pub async fn ship(
        &self,
        mut id: u64,
        _gift: bool,
        (left, right): (u8, u8),
        #[allow(unused_variables)] [first, second]: [u8; 2],
        _: u8,
    ) -> Result<u64, LockError> {
        lock.check()?;
        id += u64::from(left) + u64::from(right);
        Ok(id + u64::from(first))
    }

    async fn later(&self, id: u64, _: bool, _: (u8, u8), _: [u8; 2], _: u8) -> Result<u64, LockError> {
        Ok(id)
    }
}

macro_rules! with_fallback {
    ($name:ident, $fallback:path, $argument:ident, $ty:ty, $answer:ty, $body:block) => {
        #[distributed_lock(key = "order:<id>", strategy = "skip", fallback = $fallback)]
        async fn $name($argument: $ty, id: u64) -> $answer $body
    };
}

async fn later(name: &'static str, _id: u64) -> Option<u64> {
    Some(name.len() as u64)
}

with_fallback!(find, later, name, &'static str, Option<u64>, { Some(name.len() as u64 + 1) });

fn main() {
    let shop = Shop { locks: LockManager::in_memory() };
    drop(shop.ship(1, true, (2, 3), [4, 5], 6));
    drop(find("x", 1));
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
