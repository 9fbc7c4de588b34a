use lock_core::{LockError, distributed_lock};

struct Item {
    sku: String,
}

#[distributed_lock(key = "item:<item.skv>")]
async fn ship(item: Item) -> Result<String, LockError> {
    Ok(item.sku)
}

fn main() {}
