use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", kind = "fair")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", keys = ["a", "b"])]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", permits = 3)]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", backoff(base = "10ms"))]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", max_waiters = 64)]
async fn ship_5(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", max_hold = "10m")]
async fn ship_6(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", min_hold = "1s")]
async fn ship_7(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = other)]
async fn ship_8(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", profile = "checkout")]
async fn ship_9(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", label = "pay")]
async fn ship_10(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
