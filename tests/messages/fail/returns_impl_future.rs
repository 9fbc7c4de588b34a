use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>")]
fn ship(id: u64) -> impl Future<Output = Result<u64, LockError>> + Send {
    async move { Ok(id) }
}

fn main() {}
