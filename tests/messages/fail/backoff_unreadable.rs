use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", backoff = "10ms")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff())]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff(base = 10, maks = "200ms"))]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff(max = "1s", max = "2s"))]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff(base = "10", max))]
async fn ship_5(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
