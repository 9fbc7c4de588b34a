use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", fallback = ship)]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Shop;

impl Shop {
    #[distributed_lock(key = "order:<id>", fallback = Self::ship)]
    async fn ship(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}
