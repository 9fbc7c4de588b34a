use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order", strategy = "skip")]
async fn ship() -> Result<u64, LockError> {
    Ok(7)
}

fn main() {}
