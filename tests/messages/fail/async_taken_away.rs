use lock_core::{LockError, distributed_lock};

#[tokio::main(flavor = "current_thread")]
#[distributed_lock(key = "order")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
