use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "500")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = 500)]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
