use lock_core::distributed_lock;

struct ShipError;

#[distributed_lock(key = "order")]
async fn ship() -> Result<(), ShipError> {
    Ok(())
}

fn main() {}
