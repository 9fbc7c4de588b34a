use lock_core::distributed_lock;

#[distributed_lock(key = "order")]
async fn ship() {}

fn main() {}
