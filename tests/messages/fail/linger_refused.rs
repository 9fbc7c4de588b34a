use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "cart:<id>", kind = "fair", linger = "5ms")]
async fn fair(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "cart:<id>", linger = "5ms", kind = "read")]
async fn read(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "cart:<id>", kind = "semaphore", permits = 3, linger = "5ms")]
async fn semaphore(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["a:<id>", "b:<id>"], linger = "5ms")]
async fn several(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "cart:<id>", linger = "2s")]
async fn long(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "cart:<id>", ttl = "30ms", linger = "11ms")]
async fn longer_than_its_lease(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "cart:<id>", linger = 5)]
async fn no_duration(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
