//! The strictest lints accept the generated code, and a body may use any names.
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]

use lock_core::{LockError, LockManager, distributed_lock};

struct Shop {
    locks: LockManager,
}

impl Shop {
    /// Uses names that the generated code might use.
    #[distributed_lock(
        key = "order:<key>:<lock>:<_unused>:<self.name()>",
        ttl = "30s",
        strategy = "retry",
        wait = "1s",
        renew = true,
        on_lost = "cancel",
        handle = handle,
        manager = self.locks
    )]
    async fn ship(&self, key: &str, lock: u8, ttl: u8, manager: u8, _unused: u8) -> Result<u8, LockError> {
        use std::collections::BTreeMap as Result;
        const REQUEST: u8 = 1;
        handle.check()?;
        let mut request = Result::new();
        request.insert(key.to_owned(), lock);
        let body = ttl + manager + REQUEST;
        Ok(request.values().sum::<u8>() + body)
    }

    /// Returns nothing, even if the call is skipped.
    #[distributed_lock(key = "sweep", strategy = "skip", manager = self.locks)]
    async fn sweep(&self) {
        tokio::task::yield_now().await;
    }

    /// Returns `None` if the call is skipped.
    #[distributed_lock(key = "sweep", strategy = "skip", manager = self.locks)]
    async fn find(&self) -> Option<u8> {
        tokio::task::yield_now().await;
        None
    }

    /// Passes its parameters on to a fallback.
    #[distributed_lock(
        key = "order:<error>",
        backoff(base = "10ms", max = "20ms"),
        fallback = Self::later,
        manager = self.locks,
        handle = fallback
    )]
    async fn pay(
        &self,
        error: u8,
        held: u8,
        _unused: u8,
        (one, mut two): (u8, u8),
        _: u8,
    ) -> Result<u8, LockError> {
        fallback.check()?;
        two += 1;
        Ok(error + held + one + two)
    }

    async fn later(&self, _: u8, _: u8, _: u8, _: (u8, u8), _: u8) -> Result<u8, LockError> {
        tokio::task::yield_now().await;
        let _ = &self.locks;
        Ok(0)
    }

    const fn name(&self) -> &'static str {
        let _ = &self.locks;
        "shop"
    }
}

#[tokio::test]
async fn names_do_not_collide() {
    let shop = Shop { locks: LockManager::in_memory() };
    assert_eq!(shop.ship("a b", 1, 2, 3, 4).await.unwrap(), 7);
    assert_eq!(shop.pay(1, 2, 3, (4, 5), 6).await.unwrap(), 13);
    shop.sweep().await;
    assert_eq!(shop.find().await, None);
}
