//! A user with every warning denied sees none from the generated code.
#![deny(warnings, missing_docs, unused, unreachable_pub)]

use std::sync::Arc;

use lock_core::{LockError, LockManager, distributed_lock};

/// A shop.
#[derive(Debug)]
pub struct Shop {
    locks: LockManager,
    tenant: String,
}

impl Shop {
    const DESKS: u32 = 3;

    /// Ships.
    ///
    /// # Errors
    ///
    /// When the lock is not acquired.
    #[distributed_lock(key = "order:<self.tenant>:<id>:<_x>", ttl = "500ms", manager = self.locks, handle = lock)]
    pub async fn ship(&self, mut id: u64, _x: u8) -> Result<u64, LockError> {
        lock.check()?;
        id += 1;
        return Ok(id);
    }

    /// Takes itself.
    #[distributed_lock(key = "all", strategy = "skip", manager = &self.locks)]
    pub async fn sweep(self: Arc<Self>) {
        let _tenant = &self.tenant;
    }

    /// Moves money.
    ///
    /// # Errors
    ///
    /// When the lock is not acquired.
    #[distributed_lock(
        keys = ["account:<_from>", "account:<to>"],
        max_waiters = 64,
        max_hold = "10m",
        min_hold = "1s",
        label = "transfer",
        profile = "checkout",
        manager = self.locks,
    )]
    pub async fn transfer(&self, _from: u64, to: u64) -> Result<u64, LockError> {
        Ok(to)
    }

    /// Sits down.
    ///
    /// # Errors
    ///
    /// When the lock is not acquired.
    #[distributed_lock(key = "desk", kind = "semaphore", permits = Self::DESKS, manager = self.locks)]
    pub async fn sit(&self) -> Result<(), LockError> {
        Ok(())
    }

    /// Has no tail.
    #[distributed_lock(key = "diverges", manager = self.locks)]
    pub async fn later(&self) -> Result<(), LockError> {
        unimplemented!()
    }
}

#[distributed_lock(key = "nested")]
async fn with_items() -> Result<usize, LockError> {
    use std::collections::HashMap;
    const N: usize = 3;
    fn inner() -> HashMap<u8, u8> {
        HashMap::new()
    }
    Ok(inner().len() + N)
}

fn main() {
    let shop = Shop { locks: LockManager::in_memory(), tenant: "t".into() };
    drop(shop.ship(1, 2));
    drop(shop.later());
    drop(shop.transfer(1, 2));
    drop(shop.sit());
    drop(Arc::new(shop).sweep());
    drop(with_items());
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
