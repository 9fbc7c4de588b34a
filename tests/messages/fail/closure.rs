use lock_core::{LockError, distributed_lock};

fn main() {
    #[distributed_lock(key = "order")]
    let _ship = async || Ok::<(), LockError>(());
}
