use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order")]
const fn ship_1() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "order")]
const async fn ship_2() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
