use lock_core::{LockError, distributed_lock};

async fn without_arguments() -> Result<u64, LockError> {
    Ok(0)
}

async fn of_another_type(name: &str) -> Result<u64, LockError> {
    Ok(name.len() as u64)
}

async fn with_another_answer(id: u64) -> u64 {
    id
}

fn not_async(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = without_arguments)]
async fn ship_1(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = of_another_type)]
async fn ship_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = with_another_answer)]
async fn ship_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", fallback = not_async)]
async fn ship_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
