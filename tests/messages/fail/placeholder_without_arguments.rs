use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
async fn ship() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
