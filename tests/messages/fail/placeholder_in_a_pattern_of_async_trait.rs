use lock_core::{LockError, distributed_lock};

struct Shop;

#[async_trait::async_trait]
trait Ship {
    async fn ship(&self, pair: (u64, u64)) -> Result<u64, LockError>;
}

#[async_trait::async_trait]
impl Ship for Shop {
    #[distributed_lock(key = "order:<id>")]
    async fn ship(&self, (id, _count): (u64, u64)) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}
