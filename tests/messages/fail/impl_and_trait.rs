use lock_core::distributed_lock;

struct Shop;

#[distributed_lock(key = "order")]
impl Shop {}

#[distributed_lock(key = "order")]
trait Ship {}

fn main() {}
