use lock_core::{LockError, distributed_lock};

#[distributed_lock(keys = ["account:<form>", "account:<to>", "", "log:<at>"])]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {}
