use lock_core::{LockError, distributed_lock};

struct Account;

#[distributed_lock(keys = ["account:<from>", "log:<line>"])]
async fn transfer(from: Account, line: u64) -> Result<u64, LockError> {
    Ok(line)
}

fn main() {}
