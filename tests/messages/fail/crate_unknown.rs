use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "5s", crate = nope)]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["order:<id>", "stock"], handle = lock, fallback = later, crate = ::nope)]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    lock.check()?;
    Ok(id)
}

async fn later(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// The name of a module of `lock_core`, with other content.
#[distributed_lock(key = "order:<id>", strategy = "skip", crate = std)]
async fn ship_3(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
