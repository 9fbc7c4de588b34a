use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", strategy = "fair")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", strategy = "semaphore")]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = "retry")]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = "wait")]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
