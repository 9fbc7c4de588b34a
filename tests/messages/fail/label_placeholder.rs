use lock_core::{LockError, distributed_lock};

struct User {
    id: u64,
}

#[distributed_lock(key = "order:<id>", label = "user <usr.id> request <req>")]
async fn ship_1(id: u64, user: User, req: &str) -> Result<u64, LockError> {
    let _ = (req, user.id);
    Ok(id)
}

#[distributed_lock(key = "order:<id>", label = "request {req}")]
async fn ship_2(id: u64, req: &str) -> Result<u64, LockError> {
    let _ = req;
    Ok(id)
}

#[distributed_lock(key = "order:<id>", label = "user <user.name>")]
async fn ship_3(id: u64, user: User) -> Result<u64, LockError> {
    Ok(id + user.id)
}

#[distributed_lock(key = "order:<id>", label = "user <user>")]
async fn ship_4(id: u64, user: User) -> Result<u64, LockError> {
    Ok(id + user.id)
}

#[distributed_lock(key = "order:<id>", label = "id <id:u64>")]
async fn ship_5(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
