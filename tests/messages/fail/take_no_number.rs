use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "report:<id>", kind = "semaphore", permits = 8, take = 0)]
async fn nothing(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "report:<id>", kind = "semaphore", permits = 8, take = "3")]
async fn a_text(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "report:<id>", kind = "semaphore", permits = 200, take = 101)]
async fn more_than_one_step_takes(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
