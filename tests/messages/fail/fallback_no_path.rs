use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", fallback = "ship_later")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = |id| async move { Ok(id) })]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = ship_later(id))]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
