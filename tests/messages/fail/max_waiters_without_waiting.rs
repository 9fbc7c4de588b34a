use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", strategy = "fail_fast", max_waiters = 64)]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", max_waiters = 64, strategy = "skip")]
async fn ship_2(id: u64) -> Result<Option<u64>, LockError> {
    Ok(Some(id))
}

fn main() {}
