use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", handle = id)]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
