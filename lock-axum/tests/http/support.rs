//! Defines a store that tests can make fail, and helper functions for requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Method, Request, Response};
use lock_core::backend::{Ask, Attempt, Backend, Capability, Claim, Grant, Held, Released, Renew, Renewal};
use lock_core::clock::Clock;
use lock_core::owner::Owner;
use lock_core::{FencingToken, LockError, LockErrorKind, LockManager};
use tower::ServiceExt;

/// The recorded events, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Writes its text to a log when it is dropped.
pub(crate) struct OnDrop(pub(crate) Log, pub(crate) &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

/// A remote store whose answers are delayed and may be lost. Its leases do not expire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Remote {
    held: Arc<Mutex<HashMap<String, Owner>>>,
    pub(crate) delay: Duration,
    pub(crate) down: Arc<AtomicBool>,
    pub(crate) log: Log,
}

impl Remote {
    pub(crate) fn slow(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    pub(crate) fn manager(&self) -> LockManager {
        LockManager::builder(self.clone()).build().unwrap()
    }

    async fn answer(&self) -> Result<(), LockError> {
        if self.down.load(Ordering::Relaxed) {
            let detail = "cannot reach redis://user:secret@store:6379";
            return Err(LockError::new(LockErrorKind::Unavailable, detail).nothing_taken());
        }
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        Ok(())
    }
}

impl Backend for Remote {
    fn capability(&self) -> Capability {
        Capability::exclusive("remote")
    }

    async fn acquire(&self, claim: &Claim, _ask: Ask) -> Result<Attempt, LockError> {
        self.answer().await?;
        let mut held = self.held.lock().unwrap();
        let owner = *held.entry(claim.key.as_str().to_owned()).or_insert(claim.owner);
        if owner != claim.owner {
            return Ok(Attempt::Held(Held::default()));
        }
        self.log.add("acquire");
        Ok(Attempt::Granted(Grant::new(Clock::Suspend.now(), claim.ttl)))
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        let yes = |renew: &Renew<'_>| Renewal::Renewed {
            sent: Clock::Suspend.now(),
            lease: renew.ttl,
            waiters: None,
        };
        batch.iter().map(yes).collect()
    }

    async fn release(&self, claim: &Claim, _keep_for: Option<Duration>) -> Result<Released, LockError> {
        self.answer().await?;
        let mut held = self.held.lock().unwrap();
        if held.get(claim.key.as_str()) == Some(&claim.owner) {
            held.remove(claim.key.as_str());
            self.log.add("release");
        }
        Ok(Released::Released)
    }

    async fn fence(&self, _claim: &Claim) -> Result<FencingToken, LockError> {
        Err(LockError::new(LockErrorKind::Unsupported, "the remote store gives no fencing tokens"))
    }
}

pub(crate) fn request(method: Method, uri: &str) -> Request<Body> {
    Request::builder().method(method).uri(uri).body(Body::empty()).unwrap()
}

pub(crate) fn get(uri: &str) -> Request<Body> {
    request(Method::GET, uri)
}

pub(crate) async fn send(app: &Router, request: Request<Body>) -> Response<Body> {
    app.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn text(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

/// Waits until `condition` holds. This function polls, because the release of a dropped guard sends no notification.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    waited.await.expect("the condition holds in time");
}

pub(crate) async fn is_free(locks: &LockManager, key: &str) -> bool {
    match locks.lock(key).try_acquire().await.unwrap() {
        Some(guard) => guard.release().await.is_ok(),
        None => false,
    }
}
