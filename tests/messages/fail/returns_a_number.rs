use lock_core::distributed_lock;

#[distributed_lock(key = "order")]
async fn ship() -> u64 {
    7
}

#[distributed_lock(key = "order")]
async fn all() -> Vec<u64> {
    vec![7]
}

fn main() {}
