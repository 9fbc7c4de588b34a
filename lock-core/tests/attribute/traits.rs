//! Trait methods: native, with a default body, and below `#[async_trait]`. Also functions with several attributes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{LockError, LockManager, distributed_lock};

use crate::support::{assert_send, hold, is_held};

struct Shop {
    locks: LockManager,
    id: u64,
}

impl Shop {
    fn new() -> Self {
        Self { locks: LockManager::in_memory(), id: 7 }
    }
}

trait Native {
    fn locks(&self) -> &LockManager;

    #[distributed_lock(key = "default:<name>", manager = self.locks())]
    async fn default_body(&self, name: &str) -> Result<bool, LockError> {
        Ok(is_held(self.locks(), &format!("default:{name}")).await)
    }

    async fn required(&self) -> Result<bool, LockError>;
}

impl Native for Shop {
    fn locks(&self) -> &LockManager {
        &self.locks
    }

    #[distributed_lock(key = "native:<self.id>", manager = self.locks)]
    async fn required(&self) -> Result<bool, LockError> {
        Ok(is_held(&self.locks, "native:7").await)
    }
}

#[async_trait]
trait Boxed: Send + Sync {
    async fn shared(&self, name: &str, count: u64) -> Result<bool, LockError>;
    async fn exclusive(&mut self, mut count: u64) -> Result<u64, LockError>;
    async fn arc(self: Arc<Self>, pair: (u8, u8)) -> Result<bool, LockError>;
    async fn skipped(&self);
    fn manager(&self) -> &LockManager;

    #[distributed_lock(key = "boxed-default", manager = self.manager(), strategy = "skip")]
    async fn default_body(&self) -> Option<bool> {
        Some(is_held(self.manager(), "boxed-default").await)
    }
}

#[async_trait]
impl Boxed for Shop {
    #[distributed_lock(key = "boxed:<self.id>:<name>:<count>", manager = self.locks, handle = lock)]
    async fn shared(&self, name: &str, count: u64) -> Result<bool, LockError> {
        lock.check()?;
        if count == 0 {
            return Ok(false);
        }
        Ok(is_held(&self.locks, &format!("boxed:7:{name}:{count}")).await)
    }

    #[distributed_lock(key = "boxed:<self.id>:<count>", manager = self.locks)]
    async fn exclusive(&mut self, mut count: u64) -> Result<u64, LockError> {
        assert!(is_held(&self.locks, "boxed:7:2").await);
        count += self.id;
        self.id = count;
        Ok(count)
    }

    #[distributed_lock(key = "boxed:<pair.0>:<pair.1>", manager = self.locks)]
    async fn arc(self: Arc<Self>, pair: (u8, u8)) -> Result<bool, LockError> {
        Ok(is_held(&self.locks, &format!("boxed:{}:{}", pair.0, pair.1)).await)
    }

    #[distributed_lock(key = "boxed-skip", manager = self.locks, strategy = "skip")]
    async fn skipped(&self) {
        panic!("the body ran without the lock");
    }

    fn manager(&self) -> &LockManager {
        &self.locks
    }
}

#[async_trait(?Send)]
trait Local {
    async fn local(&self) -> Result<bool, LockError>;
}

#[async_trait(?Send)]
impl Local for Shop {
    #[distributed_lock(key = "local", manager = self.locks)]
    async fn local(&self) -> Result<bool, LockError> {
        Ok(is_held(&self.locks, "local").await)
    }
}

/// This function has the form that `#[async_trait]` generates, written by hand.
#[distributed_lock(key = "hand:<id>", manager = locks)]
fn by_hand(
    locks: &LockManager,
    id: u64,
) -> Pin<Box<dyn Future<Output = Result<bool, LockError>> + Send + '_>> {
    Box::pin(async move { Ok(is_held(locks, &format!("hand:{id}")).await) })
}

#[tracing::instrument(skip_all)]
#[distributed_lock(key = "traced:<id>", manager = locks)]
async fn below_instrument(locks: &LockManager, id: u64) -> Result<bool, LockError> {
    Ok(is_held(locks, &format!("traced:{id}")).await)
}

#[distributed_lock(key = "traced:<id>", manager = locks)]
#[tracing::instrument(skip_all, err)]
async fn above_instrument(locks: &LockManager, id: u64) -> Result<bool, LockError> {
    Ok(is_held(locks, &format!("traced:{id}")).await)
}

struct Traced(LockManager);

#[async_trait]
impl Boxed for Traced {
    #[distributed_lock(key = "traced:<count>", manager = self.0)]
    #[tracing::instrument(skip_all)]
    async fn shared(&self, _name: &str, count: u64) -> Result<bool, LockError> {
        Ok(is_held(&self.0, &format!("traced:{count}")).await)
    }

    #[tracing::instrument(skip_all)]
    #[distributed_lock(key = "traced:<count>", manager = self.0)]
    async fn exclusive(&mut self, count: u64) -> Result<u64, LockError> {
        assert!(is_held(&self.0, &format!("traced:{count}")).await);
        Ok(count)
    }

    async fn arc(self: Arc<Self>, _pair: (u8, u8)) -> Result<bool, LockError> {
        Ok(true)
    }

    async fn skipped(&self) {}

    fn manager(&self) -> &LockManager {
        &self.0
    }
}

#[tokio::test]
async fn native_trait_methods_are_locked() {
    let shop = Shop::new();
    assert!(Native::default_body(&shop, "x").await.unwrap());
    assert!(shop.required().await.unwrap());
}

#[tokio::test]
async fn methods_below_async_trait_are_locked() {
    let mut shop = Shop::new();
    assert!(assert_send(shop.shared("n", 3)).await.unwrap());
    assert!(!shop.shared("n", 0).await.unwrap());
    assert_eq!(shop.exclusive(2).await.unwrap(), 9);
    assert_eq!(Boxed::default_body(&shop).await, Some(true));
    assert!(shop.local().await.unwrap());
    let held = hold(&shop.locks, "boxed-skip").await;
    shop.skipped().await;
    drop(held);
    let shop: Arc<dyn Boxed> = Arc::new(shop);
    assert!(shop.arc((1, 2)).await.unwrap());
}

#[tokio::test]
async fn other_attributes_may_stand_above_and_below() {
    let locks = LockManager::in_memory();
    assert!(by_hand(&locks, 1).await.unwrap());
    assert!(below_instrument(&locks, 1).await.unwrap());
    assert!(above_instrument(&locks, 1).await.unwrap());
    let mut traced = Traced(locks);
    assert!(traced.shared("", 1).await.unwrap());
    assert_eq!(traced.exclusive(2).await.unwrap(), 2);
}

#[distributed_lock(key = "a test", manager = LockManager::in_memory(), handle = lock)]
#[tokio::test]
async fn an_attribute_that_takes_the_async_away_may_stand_below() -> Result<(), LockError> {
    lock.check()
}
