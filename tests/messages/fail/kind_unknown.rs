use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", kind = "raed")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = "shared")]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = "banana")]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", kind = fair)]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
