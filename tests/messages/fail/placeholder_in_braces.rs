//! A placeholder as format strings, routers and shells have it.

use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:{id}")]
async fn ship(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "order:{id:?}")]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:{}")]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "price$other:$id:x")]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Names that are no arguments are text: the hash tag of a Cluster.
#[distributed_lock(key = "{order}$other:<id>")]
async fn ship_5(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order::id")]
async fn ship_6(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "/orders/:id")]
async fn ship_7(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// The same for an argument whose name is a word of the key.
#[distributed_lock(key = "order:id:<id>:id")]
async fn ship_8(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
