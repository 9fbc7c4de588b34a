//! An error comes alone. A parameter that only the attribute mentions is not called unused beside it.

use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = 5)]
async fn ship(id: u64, (from, to): (u64, u64)) -> Result<(), LockError> {
    Ok(())
}

struct Shop;

impl Shop {
    #[distributed_lock(key = "order:<id>", fallback = 5)]
    async fn pay(&self, id: u64, #[cfg(any())] other: u64) -> Result<(), LockError> {
        Ok(())
    }
}

#[distributed_lock(key = "order:<id>")]
fn send(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
