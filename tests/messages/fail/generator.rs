use lock_core::distributed_lock;

#[distributed_lock(key = "order")]
gen fn ship() -> u64 {
    yield 1;
}

fn main() {}
