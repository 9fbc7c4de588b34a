use lock_core::{LockError, distributed_lock};

struct Path<T>(T);

struct Order {
    id: u64,
    item: (u64, u64),
}

#[distributed_lock(key = "order:<id>")]
async fn ship_1((id, _count): (u64, u64)) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>")]
async fn ship_2(Path(id): Path<u64>) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<tenant>:<id>")]
async fn ship_3(Path((tenant, id)): Path<(String, u64)>) -> Result<u64, LockError> {
    Ok(id + tenant.len() as u64)
}

#[distributed_lock(key = "order:<order.id>")]
async fn ship_4(Path(order): Path<Order>) -> Result<u64, LockError> {
    Ok(order.id)
}

#[distributed_lock(key = "order:<id>:<sku>:<second>")]
async fn ship_5(Order { id, item: (sku, ref second) }: Order) -> Result<u64, LockError> {
    Ok(id + sku + second)
}

#[distributed_lock(key = "order:<id>")]
async fn ship_6([id, ..]: [u64; 3]) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
