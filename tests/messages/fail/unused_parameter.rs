#![deny(unused)]

use lock_core::{LockError, distributed_lock};

struct Shop;

impl Shop {
    #[distributed_lock(key = "order:<id>")]
    async fn ship(&self, id: u64, name: &str, mut count: u64) -> Result<(), LockError> {
        Ok(())
    }

    #[distributed_lock(key = "order", handle = lock)]
    async fn pay(
        &self,
        (left, right): (u64, u64),
        _kept: u64,
        #[allow(unused_variables)] quiet: u64,
    ) -> Result<u64, LockError> {
        lock.check()?;
        Ok(left)
    }
}

fn main() {
    drop(Shop.ship(1, "x", 2));
    drop(Shop.pay((1, 2), 3, 4));
}
