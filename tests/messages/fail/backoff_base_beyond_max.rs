use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", backoff(base = "1s", max = "200ms"))]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff(base = "1s"))]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff(max = "2ms"))]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
