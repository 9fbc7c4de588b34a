//! For which requests.

use std::sync::Arc;

use http::Method;
use http::request::Parts;

use super::builder::LockLayer;
use crate::config::{Methods, SkipIf};

impl<K> LockLayer<K> {
    /// Which methods are locked; the others are served without. `GET` and `HEAD` go together, whichever is named. Default: all of them, because a
    /// request that is silently not locked is worse than one that is locked in vain.
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

    /// Locks all methods but `GET`, `HEAD`, `OPTIONS` and `TRACE`: those that change something (RFC 9110, 9.2.1).
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

    /// Serves a request without a lock when `skip` says so. Default: none.
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

    /// Takes the lock when the body of the request has arrived, of at most `limit` bytes: a client that sends its body byte by
    /// byte then keeps nobody else out. A longer one is answered with 413, one that breaks off with 400, both without the
    /// lock. Default: the lock is taken first, and the handler reads the body under it.
    ///
    /// The body is in memory then, at most `limit` bytes for each request. How long a client may take for it is for a layer
    /// outside to say, such as `RequestBodyTimeoutLayer` or `TimeoutLayer` of tower-http. It has to be
    /// [`axum::body::Body`], as in a [`Router`](axum::Router): in a service with another one, each request is a 500.
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

    /// How many different keys the requests of this layer may lock, or wait for, at the same time in this process; a
    /// request for a further one is refused with 503. Keys are made from what clients send: without a limit, one client
    /// could fill the store. Clones of a layer share the count. Default: 10,000.
    ///
    /// [`check`](LockLayer::check) refuses 0.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks).key("session:<header.x-session>").max_keys(500);
    /// ```
    pub fn max_keys(mut self, max: usize) -> Self {
        self.options.max_keys = max;
        self
    }
}
