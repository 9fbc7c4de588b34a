use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order")]
async extern "C" fn ship() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
