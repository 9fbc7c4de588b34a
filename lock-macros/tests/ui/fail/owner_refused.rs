use lock_core::{LockError, distributed_lock};

#[distributed_lock(key = "import:<id>", owner = "import-<shrad>")]
async fn import_1(id: u64, shard: u64) -> Result<u64, LockError> {
    Ok(id + shard)
}

#[distributed_lock(keys = ["import:<id>", "log"], owner = "import-3")]
async fn import_2(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "import:<id>", owner = "import-3", kind = "semaphore", permits = 3)]
async fn import_3(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "import:<id>", kind = "read", owner = "import-3")]
async fn import_4(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "import:<id>", owner = 3)]
async fn import_5(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "import:<id>", owner = " ")]
async fn import_6(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "import:<id>", owner = shard)]
async fn import_7(id: u64, shard: u64) -> Result<u64, LockError> {
    Ok(id + shard)
}

#[distributed_lock(key = "import:<id>", worker = "import-3")]
async fn import_8(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
