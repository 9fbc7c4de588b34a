use lock_core::{LockError, distributed_lock};

async fn ship_later(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = ship_later)]
async fn ship(id: u64, #[cfg(any())] gift: bool) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
