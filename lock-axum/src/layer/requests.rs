//! Sets the options that define which requests a layer locks, and how many keys at once.

use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::builder::LockLayer;
use crate::config::{Methods, SkipIf};

impl<K> LockLayer<K> {
    /// Sets the methods to lock; other methods are served without a lock. `GET` and `HEAD` are always locked together.
    /// Default: all methods, because a missing lock is worse than an unnecessary one.
    ///
    /// [`check`](LockLayer::check) refuses an empty list.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use http::Method;
    ///
    /// let writes = lock_axum::LockLayer::new(locks).key("order:<id>").methods([Method::POST, Method::PUT]);
    /// ```
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.options.methods = Methods::Only(methods.into_iter().collect());
        self
    }

    /// Locks all methods except the safe ones, `GET`, `HEAD`, `OPTIONS` and `TRACE` (RFC 9110, section 9.2.1).
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let changes = lock_axum::LockLayer::new(locks).key("order:<id>").unsafe_methods();
    /// ```
    pub fn unsafe_methods(mut self) -> Self {
        self.options.methods = Methods::Unsafe;
        self
    }

    /// Serves a request without a lock if `skip` returns true for it. Default: no request is skipped.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks)
    ///     .key("order:<id>")
    ///     .skip_if(|parts| parts.headers.contains_key("x-dry-run"));
    /// ```
    pub fn skip_if(mut self, skip: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.options.skip_if = Some(SkipIf(Arc::new(skip)));
        self
    }

    /// Acquires the lock after the body of the request has arrived, so that a client that sends its body slowly does
    /// not block other requests. A body of more than `limit` bytes is answered with 413, and a body that ends early
    /// with 400. In both cases the lock is not acquired. Default: the lock is acquired first, and the handler reads the
    /// body under it.
    ///
    /// The body is kept in memory, up to `limit` bytes for each request. Limit the time of the upload in an outer
    /// layer, such as `RequestBodyTimeoutLayer` or `TimeoutLayer` of tower-http. The body must be an
    /// [`axum::body::Body`], as in a [`Router`](axum::Router). In a service with another body type, each request is
    /// answered with 500.
    ///
    /// [`check`](LockLayer::check) refuses 0.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let upload = lock_axum::LockLayer::new(locks).key("document:<id:u64>").after_body(1024 * 1024).check()?;
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    pub fn after_body(mut self, limit: usize) -> Self {
        self.options.after_body = Some(limit);
        self
    }

    /// Sets how many different keys the requests of this layer may lock, or wait for, at the same time in this process.
    /// Beyond this number, a request for another key is refused with 503. Keys are made from data of clients, so
    /// without a limit one client could fill the store. Clones of a layer share the limit. Default: 10,000.
    ///
    /// The limit counts the keys of requests that are being served. The limit does not count keys that stay in the
    /// store after their request, for a [`min_hold`](Self::min_hold) or to remember a fencing token. Each new id that a
    /// client sends leaves such a key. All clients share the limit: one client can use it up with slow requests, and
    /// all other clients are then answered with 503. So put authentication and a rate limit for each client in front of
    /// the layer.
    ///
    /// [`check`](LockLayer::check) refuses 0.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks).key("session:<header.x-session>").max_keys(500);
    /// ```
    pub fn max_keys(mut self, max: usize) -> Self {
        self.options.max_keys = Some(max);
        self
    }
}
