//! A placeholder as format strings and routers have it.

use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:{id}")]
async fn ship(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

fn main() {}
