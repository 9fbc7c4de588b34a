use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", kind = "semaphore", permits = 0)]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = "semaphore", permits = "3")]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = "semaphore", permits = -3)]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = "semaphore", permits = 4_294_967_296)]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
