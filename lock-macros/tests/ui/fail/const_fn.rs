use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order")]
const async fn ship() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
