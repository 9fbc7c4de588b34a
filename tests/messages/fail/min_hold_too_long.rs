use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", min_hold = "2m", max_hold = "90s")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "10s", renew = false, min_hold = "1m")]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
