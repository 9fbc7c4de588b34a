use lock_core::{LockError, distributed_lock};

#[distributed_lock(keys = ["job:<name>", "job:nightly"])]
async fn ship_1(name: &str) -> Result<usize, LockError> {
    Ok(name.len())
}

#[distributed_lock(keys = ["order:<id>", "stock", "order:<id>.items"])]
async fn ship_2(id: String) -> Result<usize, LockError> {
    Ok(id.len())
}

#[distributed_lock(keys = ["order:<id>", "order:7"])]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// The field of a number is of another type, for all that is known here.
#[distributed_lock(keys = ["job:<id.name>", "job:nightly"])]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
