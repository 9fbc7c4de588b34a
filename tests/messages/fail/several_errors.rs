use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<idd>", tll = "5s", ttl = "5", strategy = "retri")]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
