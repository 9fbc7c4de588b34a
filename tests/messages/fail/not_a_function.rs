use lock_core::distributed_lock;

#[distributed_lock(key = "order")]
struct Shop;

#[distributed_lock(key = "order")]
enum Kind {}

#[distributed_lock(key = "order")]
mod orders {}

#[distributed_lock(key = "order")]
const LIMIT: u8 = 3;

fn main() {}
