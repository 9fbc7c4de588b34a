use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", strategy = "fail_fast", backoff(base = "10ms"))]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff(base = "10ms", max = "20ms"), strategy = "skip")]
async fn ship_2(id: u64) -> Result<Option<u64>, LockError> {
    Ok(Some(id))
}

#[distributed_lock(key = "order:<id>", strategy = lock_core::strategy::retry(), backoff(max = "1s"))]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
