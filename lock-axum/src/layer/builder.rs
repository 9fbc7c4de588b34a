//! A layer, and what makes a service of it.

use std::sync::Arc;

use lock_core::LockManager;
use tower::Layer;

use super::options::Options;
use crate::config::Config;
use crate::key::Keys;
use crate::service::Lock;

/// A layer without a key yet; [`LockLayer::key`] gives it one, [`LockLayer::keys`] several, [`LockLayer::key_fn`] what a
/// function says. Only a layer with a key can be mounted.
#[derive(Clone, Debug)]
pub struct NoKeyYet(());

/// A layer with a key.
#[derive(Clone, Debug)]
pub struct Keyed(pub(crate) Keys);

/// Runs requests under a lock: [`Layer`] of the service [`Lock`].
///
/// See the documentation of the crate for what clients get to see and for where to mount it.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use axum::{Router, routing::post};
/// use lock_axum::LockLayer;
/// use lock_core::{LockManager, strategy};
///
/// let locks = LockManager::in_memory();
/// let one_at_a_time = LockLayer::new(locks)
///     .key("order:<id>")
///     .ttl(Duration::from_secs(5))
///     .strategy(strategy::retry().within(Duration::from_secs(1)));
/// let app: Router = Router::new().route("/orders/{id}/pay", post(async || "paid").route_layer(one_at_a_time));
/// ```
///
/// A layer without a key cannot be mounted:
/// ```compile_fail,E0277
/// # use axum::{Router, routing::post};
/// # let locks = lock_core::LockManager::in_memory();
/// let app: Router = Router::new().route("/pay", post(async || "paid").layer(lock_axum::LockLayer::new(locks)));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is mounted"]
pub struct LockLayer<K = Keyed> {
    pub(crate) key: K,
    pub(crate) options: Options,
}

impl LockLayer<NoKeyYet> {
    /// Begins a layer that takes its locks from `manager`.
    pub fn new(manager: LockManager) -> Self {
        Self { key: NoKeyYet(()), options: Options::new(manager) }
    }
}

impl<S> Layer<S> for LockLayer {
    type Service = Lock<S>;

    /// Wraps `inner`.
    ///
    /// # Panics
    /// When options contradict each other: at start-up, rather than at each request. [`wait`](LockLayer::wait) with a
    /// strategy that takes no limit, [`max_waiters`](LockLayer::max_waiters) of 0 or where nobody waits, a
    /// [`kind`](LockLayer::kind) that does not go with [`keys`](LockLayer::keys) or has no permit, a
    /// [`profile`](LockLayer::profile) that the manager does not have, a [`status`](LockLayer::status) that says that all
    /// is well, a [`min_hold`](LockLayer::min_hold) beyond [`max_hold`](LockLayer::max_hold), no
    /// [`methods`](LockLayer::methods), [`max_keys`](LockLayer::max_keys) of 0; and what every request would be refused for:
    /// a [`ttl`](LockLayer::ttl) or a [`kind`](LockLayer::kind) that the store does not have, or options that do not go
    /// with those of the profile.
    fn layer(&self, inner: S) -> Self::Service {
        match Config::new(self.clone()) {
            Ok(config) => Lock::new(inner, Arc::new(config)),
            Err(contradiction) => panic!("LockLayer: {contradiction}"),
        }
    }
}
