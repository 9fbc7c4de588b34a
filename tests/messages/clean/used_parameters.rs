//! A parameter that only the attribute uses, or only a text in the body, is used.
#![deny(warnings, unused)]

use std::sync::Arc;

use lock_core::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "order:<id>:<item.sku>", manager = locks, max_waiters = most + 1)]
async fn named(locks: &LockManager, id: u64, item: Item, most: usize) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "desk", kind = "semaphore", permits = permits, take = units, strategy = patience.clone())]
async fn evaluated(permits: u32, units: u32, patience: lock_core::strategy::Retry) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order", strategy = "skip", fallback = later)]
async fn passed_on(id: u64, (left, right): (u64, u64)) {}

async fn later(id: u64, (left, right): (u64, u64)) {
    assert!(id + left > right);
}

#[distributed_lock(key = "order")]
async fn printed(id: u64, r#type: u8, (mut left, right): (u8, u8)) -> Result<String, LockError> {
    left += right;
    Ok(format!("{id:?} {type} {left}", r#type = r#type))
}

#[distributed_lock(key = "order", strategy = "skip")]
async fn from_outside(#[cfg(any())] no: u64, #[cfg(all())] yes: u64, mut count: u64) -> Option<u64> {
    count += 1;
    Some(yes + count)
}

#[distributed_lock(key = "order", strategy = "skip")]
#[allow(unused_variables)]
async fn quiet(id: u64) {}

#[distributed_lock(key = "order", strategy = "skip")]
async fn quiet_as_well(#[allow(unused_variables)] id: u64) {}

struct Item {
    sku: String,
}

fn main() {
    drop(named(&LockManager::in_memory(), 1, Item { sku: "x".into() }, 1));
    drop(evaluated(1, 1, lock_core::strategy::retry()));
    drop((passed_on(1, (2, 3)), printed(1, 2, (3, 4)), from_outside(1, 2), quiet(1), quiet_as_well(1)));
    drop(Arc::new(1));
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
