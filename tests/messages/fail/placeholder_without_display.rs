use lock_core::{LockError, distributed_lock};

struct Money(u64);

#[distributed_lock(key = "item:<price>")]
async fn ship(price: Money) -> Result<u64, LockError> {
    Ok(price.0)
}

fn main() {}
