use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = true)]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = Duration::from_secs(5))]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

const TTL: &str = "5s";

#[distributed_lock(key = "order:<id>", ttl = TTL, wait = TTL)]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
