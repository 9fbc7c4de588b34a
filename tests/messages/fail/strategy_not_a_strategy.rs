use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", strategy = id)]
async fn ship(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", strategy = retry)]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// A parameter may be called so.
#[distributed_lock(key = "order:<id>", strategy = retry.clone())]
async fn ship_3(id: u64, retry: lock_core::strategy::Retry) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", strategy = skip)]
async fn ship_4(id: u64, skip: lock_core::strategy::Retry) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
