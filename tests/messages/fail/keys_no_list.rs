use lock_core::{LockError, distributed_lock};

#[distributed_lock(keys = "order:<id>")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = [])]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(keys = ["order:<id>", id])]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
