//! A layer, and what makes a service of it.

use lock_core::{LockManager, Result};
use tower::Layer;

use crate::config::{Config, Mounted, Options};
use crate::key::Keys;
use crate::service::Lock;

/// A layer without a key yet; [`LockLayer::key`] gives it one, [`LockLayer::keys`] several, [`LockLayer::key_fn`] what a
/// function says. Only a layer with a key can be mounted.
#[derive(Clone, Debug)]
pub struct NoKeyYet(());

/// A layer with a key.
#[derive(Clone, Debug)]
pub struct Keyed(pub(crate) Keys);

/// A [`LockLayer`] that can be mounted.
#[diagnostic::on_unimplemented(
    message = "this `LockLayer` has no key yet, so it cannot be mounted",
    label = "a layer without a key",
    note = "say what it locks: `.key(\"order:<id:u64>\")`, `.keys([..])`, `.key_of(..)` or `.key_fn(..)`"
)]
pub trait HasKey: Sized {
    #[doc(hidden)]
    fn mount<S>(layer: &LockLayer<Self>, inner: S) -> Lock<S>;
}

impl HasKey for Keyed {
    fn mount<S>(layer: &LockLayer, inner: S) -> Lock<S> {
        Lock::new(inner, Mounted::of(&layer.key.0, &layer.options))
    }
}

/// A [`LockLayer`] that can be given its key.
#[diagnostic::on_unimplemented(
    message = "this `LockLayer` has its key already",
    label = "a layer has one key",
    note = "drop one of the two; `.keys([..])` locks several keys at once"
)]
pub trait HasNoKey {}

impl HasNoKey for NoKeyYet {}

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
///     .key("order:<id:u64>")
///     .ttl(Duration::from_secs(5))
///     .strategy(strategy::retry().within(Duration::from_secs(1)))
///     .check()?;
/// let app: Router = Router::new().route("/orders/{id}/pay", post(async || "paid").route_layer(one_at_a_time));
/// # Ok::<(), lock_core::LockError>(())
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

impl LockLayer {
    /// Checks that the options go together and that the store can do what they say: at start-up, which is where a mistake
    /// belongs. No request is made, and nothing is asked of the store.
    ///
    /// A layer that is mounted without it works all the same. But a router mounts the layers of
    /// [`MethodRouter::route_layer`](axum::routing::MethodRouter::route_layer) when it serves its first client, so that a
    /// contradiction is found then, logged once, and every request of the route is answered with 500.
    ///
    /// # Errors
    /// [`InvalidRequest`](lock_core::LockErrorKind::InvalidRequest) for a [`wait`](Self::wait) with a strategy that takes no
    /// limit, [`max_waiters`](Self::max_waiters) of 0 or where nobody waits, a [`kind`](Self::kind) that does not go with
    /// [`keys`](Self::keys) or has no permit, more `keys` than the manager's
    /// [`max_keys`](lock_core::ManagerBuilder::max_keys) allows one request, a [`profile`](Self::profile) that the manager does not have, a
    /// [`status`](Self::status) that says that all is well, a [`min_hold`](Self::min_hold) beyond
    /// [`max_hold`](Self::max_hold), no [`methods`](Self::methods), [`max_keys`](Self::max_keys) or
    /// [`after_body`](Self::after_body) of 0, a
    /// [`ttl`](Self::ttl) that the store does not hold, or options that do not go with those of the profile;
    /// [`Unsupported`](lock_core::LockErrorKind::Unsupported) for a [`kind`](Self::kind) or [`keys`](Self::keys) that the
    /// store does not have.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_axum::LockLayer;
    /// use lock_core::{LockManager, strategy};
    ///
    /// let layer = || LockLayer::new(LockManager::in_memory()).key("order:<id>").wait(Duration::from_secs(1));
    /// let waiting = layer().check()?;
    /// let error = layer().strategy(strategy::fail_fast()).check().unwrap_err();
    /// assert!(error.to_string().contains("takes no limit"));
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    pub fn check(self) -> Result<Self> {
        Config::new(self.key.0.clone(), self.options.clone()).map(|_| self)
    }
}

impl<S, K: HasKey> Layer<S> for LockLayer<K> {
    type Service = Lock<S>;

    /// Wraps `inner`. Never panics: where the options contradict each other, which [`check`](LockLayer::check) finds out,
    /// each request is answered with 500, and the log says once why.
    fn layer(&self, inner: S) -> Self::Service {
        K::mount(self, inner)
    }
}
