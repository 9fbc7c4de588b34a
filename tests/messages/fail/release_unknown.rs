use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", release = "backgroud")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", release = background)]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", relase = "await")]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
