use lock_core::{LockError, distributed_lock};

trait Ship {
    #[distributed_lock(key = "order")]
    async fn ship(&self) -> Result<(), LockError>;
}

fn main() {}
