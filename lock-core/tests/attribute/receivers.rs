//! Every kind of `self`, and keys that use it.

use std::pin::Pin;
use std::sync::Arc;

use lock_core::{LockError, LockManager, distributed_lock};

use crate::support::{assert_send, is_held};

struct Shop {
    locks: LockManager,
    tenant: String,
    sold: u64,
}

impl Shop {
    fn new() -> Self {
        Self { locks: LockManager::in_memory(), tenant: "t".to_owned(), sold: 0 }
    }

    fn upper(&self) -> String {
        self.tenant.to_uppercase()
    }

    #[distributed_lock(key = "shop:<self.tenant>:<self.upper()>", manager = self.locks)]
    async fn shared(&self) -> Result<bool, LockError> {
        Ok(is_held(&self.locks, "shop:t:T").await)
    }

    #[distributed_lock(key = "shop:<self.sold>", manager = self.locks)]
    async fn exclusive(&mut self, count: u64) -> Result<u64, LockError> {
        self.sold += count;
        assert!(is_held(&self.locks, "shop:0").await);
        Ok(self.sold)
    }

    #[distributed_lock(key = "shop:<self.tenant>", manager = self.locks)]
    async fn by_value(mut self) -> Result<String, LockError> {
        assert!(is_held(&self.locks, "shop:t").await);
        self.tenant.push('!');
        Ok(self.tenant)
    }

    #[distributed_lock(key = "shop:<self.tenant>", manager = &self.locks)]
    async fn arc(self: Arc<Self>) -> Result<bool, LockError> {
        Ok(is_held(&self.locks, "shop:t").await)
    }

    #[distributed_lock(key = "shop:<self.tenant>", manager = self.locks)]
    async fn boxed(self: Box<Self>) -> Result<bool, LockError> {
        Ok(is_held(&self.locks, "shop:t").await)
    }

    #[distributed_lock(key = "shop:<self.tenant>", manager = self.locks)]
    async fn pinned(mut self: Pin<&mut Self>) -> Result<bool, LockError> {
        self.sold += 1;
        Ok(is_held(&self.locks, "shop:t").await)
    }

    #[distributed_lock(key = "shop:<self.tenant>", manager = self.locks)]
    async fn borrows(&self) -> Result<&str, LockError> {
        Ok(&self.tenant)
    }
}

#[tokio::test]
async fn each_receiver_is_locked() {
    let mut shop = Shop::new();
    assert!(assert_send(shop.shared()).await.unwrap());
    assert_eq!(assert_send(shop.exclusive(2)).await.unwrap(), 2);
    assert!(Pin::new(&mut shop).pinned().await.unwrap());
    assert_eq!(shop.borrows().await.unwrap(), "t");
    assert!(assert_send(Arc::new(Shop::new()).arc()).await.unwrap());
    assert!(Box::new(Shop::new()).boxed().await.unwrap());
    assert_eq!(assert_send(shop.by_value()).await.unwrap(), "t!");
}
