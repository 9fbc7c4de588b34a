use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order")]
async fn ship() -> Result<u64, LockError> {
    "seven"
}

#[distributed_lock(key = "order")]
async fn half_typed(name: String) -> Result<u64, LockError> {
    name.lenn()
}

fn main() {}
