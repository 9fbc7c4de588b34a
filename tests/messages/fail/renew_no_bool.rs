use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", renew = "yes")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
