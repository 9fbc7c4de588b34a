use lock_core::{LockError, distributed_lock};

#[distributed_lock(keys = ["order:<id>", "stock"], kind = "read")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(kind = "semaphore", permits = 3, keys = ["order:<id>"])]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
