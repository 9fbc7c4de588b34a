use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id + 1>")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<f(id)>")]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id.max(1)>")]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<&id>")]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id::x>")]
async fn ship_5(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id.await>")]
async fn ship_6(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<{id}>")]
async fn ship_7(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id as u8>")]
async fn ship_8(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
