use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<idd>")]
async fn ship_1(id: u64, name: String) -> Result<u64, LockError> {
    let _ = name;
    Ok(id)
}

#[distributed_lock(key = "order:<customer>")]
async fn ship_2(id: u64, name: String) -> Result<u64, LockError> {
    let _ = name;
    Ok(id)
}

const LIMIT: u64 = 3;

#[distributed_lock(key = "order:<LIMIT>")]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id + LIMIT)
}

fn main() {}
