use lock_core::distributed_lock;

#[distributed_lock(key = "order", strategy = "skip")]
async fn ship() -> u64 {
    7
}

fn main() {}
