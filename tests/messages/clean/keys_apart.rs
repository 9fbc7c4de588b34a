//! Templates that cannot give one key, or are meant to.
#![deny(warnings)]

use lock_core::{LockError, distributed_lock};

#[distributed_lock(keys = ["account:<from>", "account:<to>"])]
async fn transfer(from: &str, to: &str) -> Result<usize, LockError> {
    Ok(from.len() + to.len())
}

#[distributed_lock(keys = ["order:<id>", "order:<id>:items", "stock/<id>"])]
async fn ship(id: &str) -> Result<usize, LockError> {
    Ok(id.len())
}

#[distributed_lock(keys = ["account:<id>", "account:fees", "account:<change>.log"])]
async fn bill(id: u64, change: &i32) -> Result<u64, LockError> {
    Ok(id + u64::from(change.unsigned_abs()))
}

fn main() {
    drop((transfer("1", "2"), ship("1"), bill(1, &-1)));
    #[deny(non_snake_case)]
    let _theOnlyMessage = ();
}
