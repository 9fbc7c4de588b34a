use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", timeout = "5s")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(name = "order:<id>", expiry = "5s")]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", retries = 3, blocking = false)]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fencing = true)]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fair = true, max_wait = "2s")]
async fn ship_5(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", skip)]
async fn ship_6(id: u64) -> Result<Option<u64>, LockError> {
    Ok(Some(id))
}

fn main() {}
