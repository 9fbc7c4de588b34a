use lock_core::{LockError, distributed_lock};

const DESKS: usize = 3;

#[distributed_lock(key = "order:<id>", kind = "semaphore", permits = 8, take = DESKS)]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
