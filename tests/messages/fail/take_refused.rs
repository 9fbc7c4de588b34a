use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "report:<id>", take = 3)]
async fn no_semaphore(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "report:<id>", kind = "fair", take = 3)]
async fn another_kind(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "report:<id>", take = 3, kind = "read", profile = "report")]
async fn another_kind_than_the_profile(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "report:<id>", kind = "semaphore", permits = 2, take = 3)]
async fn more_than_there_are(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "report:<id>", kind = "semaphore", take = 3, permits = 2)]
async fn fewer_than_are_taken(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["report:<id>", "page:<id>"], take = 3, profile = "report")]
async fn several_keys(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "report:<id>", permits = 8, take = 3)]
async fn permits_alone(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
