use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id:u64>")]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<item.sku : Uuid>")]
async fn ship_2(item: Item) -> Result<u64, LockError> {
    Ok(item.sku)
}

#[distributed_lock(key = "order:<id:04>")]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Item {
    sku: u64,
}

fn main() {}
