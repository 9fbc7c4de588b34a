//! Defines the layer, and mounts it as a service.

use lock_core::{LockManager, Result};
use tower::Layer;

use crate::config::{Config, Mounted, Options};
use crate::key::Keys;
use crate::service::Lock;

/// The state of a [`LockLayer`] without a key. [`LockLayer::key`], [`keys`](LockLayer::keys),
/// [`key_of`](LockLayer::key_of) and [`key_fn`](LockLayer::key_fn) set the key. A layer cannot be mounted without a
/// key.
#[derive(Clone, Debug)]
pub struct NoKeyYet(());

/// The state of a [`LockLayer`] with a key.
#[derive(Clone, Debug)]
pub struct Keyed(pub(crate) Keys);

/// A [`LockLayer`] that can be mounted.
#[diagnostic::on_unimplemented(
    message = "this `LockLayer` has no key yet, so it cannot be checked or mounted",
    label = "a layer without a key",
    note = "set what it locks: `.key(\"order:<id:u64>\")`, `.keys([..])`, `.key_of(..)` or `.key_fn(..)`"
)]
pub trait HasKey: Sized {
    #[doc(hidden)]
    fn mount<S>(layer: &LockLayer<Self>, inner: S) -> Lock<S>;
    #[doc(hidden)]
    fn check(layer: &LockLayer<Self>) -> Result<()>;
}

impl HasKey for Keyed {
    fn mount<S>(layer: &LockLayer, inner: S) -> Lock<S> {
        Lock::new(inner, Mounted::new(&layer.manager, &layer.key.0, &layer.options))
    }

    fn check(layer: &LockLayer) -> Result<()> {
        Config::new(layer.manager.clone(), layer.key.0.clone(), layer.options.clone()).map(drop)
    }
}

/// A [`LockLayer`] whose key can be set.
#[diagnostic::on_unimplemented(
    message = "this `LockLayer` has a key already",
    label = "a second key",
    note = "remove one of the two; `.keys([..])` locks several keys at once"
)]
pub trait HasNoKey {}

impl HasNoKey for NoKeyYet {}

/// A [`LockLayer`] to which an extension can be added.
#[diagnostic::on_unimplemented(
    message = "this `LockLayer` has a key already, so the key cannot use a further extension",
    label = "an extension after the key",
    note = "write `.extension::<T>(\"T\")` before `.key(..)`, whose template may then contain `<ext.T>`"
)]
pub trait TakesExtension {}

impl TakesExtension for NoKeyYet {}

/// A [`Layer`] that runs requests under a lock.
///
/// The [documentation of the crate](crate) describes the answers to clients and where to mount the layer.
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
    pub(crate) manager: LockManager,
    pub(crate) options: Options,
}

impl LockLayer<NoKeyYet> {
    /// Creates a layer that acquires its locks from `manager`.
    pub fn new(manager: LockManager) -> Self {
        Self { key: NoKeyYet(()), manager, options: Options::default() }
    }
}

impl<K> LockLayer<K> {
    /// Checks that the options do not contradict each other and that the store supports them. Call this method at
    /// start-up. The check sends no request to the store.
    ///
    /// A layer also works without this check. But a router mounts the layers of
    /// [`MethodRouter::route_layer`](axum::routing::MethodRouter::route_layer) only when it serves its first client.
    /// Without this check, a contradiction is found only at that time. The contradiction is then logged once, and every
    /// request of the route is answered with 500.
    ///
    /// # Errors
    /// [`InvalidRequest`](lock_core::LockErrorKind::InvalidRequest) for
    ///
    /// - a [`wait`](Self::wait) with a strategy that has no time limit, or [`max_waiters`](Self::max_waiters) that is
    ///   0, or set although no request waits;
    /// - a [`kind`](Self::kind) other than `Reentrant` and `Write` with [`keys`](Self::keys), or a semaphore with 0 permits;
    /// - [`take`](Self::take) with 0 or with more permits than there are, or with a kind that has no permits;
    /// - more `keys` than the manager [allows](lock_core::ManagerBuilder::max_keys);
    /// - a [`ttl`](Self::ttl) that the store does not support, a [`min_hold`](Self::min_hold) above
    ///   [`max_hold`](Self::max_hold), or [`renew_every`](Self::renew_every) without renewal;
    /// - a [`linger`](Self::linger) that is too long, or that the kind or the number of keys does not allow;
    /// - an empty list of [`methods`](Self::methods), [`max_keys`](Self::max_keys) below the number of keys of a
    ///   request, [`after_body`](Self::after_body) of 0, or [`retry_after`](Self::retry_after) above 30 s;
    /// - a [`status`](Self::status) other than 4xx and 5xx, or [`grpc`](Self::grpc) with `status` or
    ///   [`respond_with`](Self::respond_with);
    /// - a [`profile`](Self::profile) that the manager does not have, or whose options contradict those of the layer.
    ///
    /// [`InvalidKey`](lock_core::LockErrorKind::InvalidKey) for a [`label`](Self::label) with an invalid placeholder.
    ///
    /// [`Unsupported`](lock_core::LockErrorKind::Unsupported) for a `kind`, a `take` or `keys` that the store does not support.
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
    pub fn check(self) -> Result<Self>
    where
        K: HasKey,
    {
        K::check(&self).map(|()| self)
    }
}

impl<S, K: HasKey> Layer<S> for LockLayer<K> {
    type Service = Lock<S>;

    /// Wraps `inner`. Never panics. If the options contradict each other, each request is answered with 500, and the
    /// log reports the reason once. [`check`](LockLayer::check) finds such a contradiction earlier.
    fn layer(&self, inner: S) -> Self::Service {
        K::mount(self, inner)
    }
}
