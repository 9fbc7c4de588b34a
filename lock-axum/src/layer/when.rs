//! For which requests, for how long, and what happens when something goes wrong on the way.

use std::sync::Arc;

use http::Method;
use http::request::Parts;
use lock_core::OnLost;

use super::builder::LockLayer;
use super::options::SkipIf;
use crate::hold::Hold;

/// What becomes of a handler whose client has gone away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnDisconnect {
    /// It is dropped at its next await point, as every handler is whose client has gone, and the lock given back. The
    /// default.
    #[default]
    Cancel,
    /// It comes to its end in a task of its own, and the lock is held until then. A request that still waits for its lock
    /// is dropped all the same.
    ///
    /// What would have stopped the handler from outside does not reach it any more: a timeout, or the loss of a lock of a
    /// layer outside of this one, so this is the outermost of several. Its own lock does: see
    /// [`on_lost`](LockLayer::on_lost). Task-local values of other crates are not there, and of a body that the client was
    /// still sending the rest is missing. A server that shuts down does not wait for the task;
    /// [`LockManager::shutdown`](lock_core::LockManager::shutdown) does, for its grace.
    Finish,
}

/// What becomes of a request when the store of locks does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreError {
    /// It is refused with 503. The default.
    #[default]
    Reject,
    /// It is served **without a lock**, beside whatever others do: for work where a rare double execution costs less than
    /// an outage. Each is counted, and the log says so. Each asks the store first, and begins when that call has failed:
    /// on Redis after up to the `timeout` of the URL, 500 ms.
    RunUnlocked,
}

/// What becomes of a request that the router has found no route for, where the key needs one: a path parameter or
/// `<route>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnNoRoute {
    /// It is served **without a lock**, so that its 404 stays one. Where the answer is anything else, as behind
    /// [`nest_service`](axum::Router::nest_service), the log says so once. The default.
    #[default]
    Serve,
    /// It is answered with 500, and the log says so once: nothing is done without the lock, and a 404 is a 500 too.
    Refuse,
}

/// Which methods are locked.
#[derive(Clone, Debug, Default)]
pub(crate) enum Methods {
    #[default]
    All,
    Unsafe,
    Only(Arc<[Method]>),
}

impl Methods {
    pub(crate) fn include(&self, method: &Method) -> bool {
        match self {
            Self::All => true,
            // RFC 9110, 9.2.1.
            Self::Unsafe => ![Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method),
            Self::Only(methods) => methods.iter().any(|named| served_by(named) == served_by(method)),
        }
    }
}

/// A router gives HEAD to the handler of GET.
fn served_by(method: &Method) -> &Method {
    if method == Method::HEAD { &Method::GET } else { method }
}

impl<K> LockLayer<K> {
    /// Until when the lock is held. Default: [`Hold::Auto`].
    pub fn hold(mut self, hold: Hold) -> Self {
        self.options.hold = hold;
        self
    }

    /// What becomes of the handler when the client goes away. Default: [`OnDisconnect::Cancel`].
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::{LockLayer, OnDisconnect};
    ///
    /// let paid_to_the_end = LockLayer::new(locks).key("order:<id>").on_disconnect(OnDisconnect::Finish);
    /// ```
    pub fn on_disconnect(mut self, on_disconnect: OnDisconnect) -> Self {
        self.options.on_disconnect = on_disconnect;
        self
    }

    /// What becomes of the handler when the lock is lost. Either way the client gets 503: with [`OnLost::Finish`] after
    /// the handler has come to its end, and a body that holds the lock is sent to its end. Default: [`OnLost::Cancel`],
    /// dropped before anyone else can hold the lock.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::LockLayer;
    /// use lock_core::OnLost;
    ///
    /// let to_the_end = LockLayer::new(locks).key("order:<id>").on_lost(OnLost::Finish);
    /// ```
    pub fn on_lost(mut self, on_lost: OnLost) -> Self {
        self.options.on_lost = on_lost;
        self
    }

    /// What becomes of a request when the store of locks cannot be reached. A key that is held, a bad request and a wrong
    /// set-up are refused whatever this says. Default: [`OnStoreError::Reject`].
    ///
    /// The strategy comes first: a request that [waits](Self::wait) for its lock waits as long for the store, and with
    /// [`strategy::wait`](lock_core::strategy::wait()) for ever. A handler that runs unlocked has no
    /// [`LockHandle`](crate::LockHandle): it takes an `Option` of it.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::{LockHandle, LockLayer, OnStoreError};
    ///
    /// let best_effort = LockLayer::new(locks).key("thumbnail:<id>").on_store_error(OnStoreError::RunUnlocked);
    /// async fn render(lock: Option<LockHandle>) -> &'static str {
    ///     if lock.is_some() { "made once" } else { "made, perhaps twice" }
    /// }
    /// # let _ = axum::routing::post::<_, _, ()>(render);
    /// ```
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.options.on_store_error = on_store_error;
        self
    }

    /// What becomes of a request without a route, for a layer outside of services that axum knows no routes of. Default:
    /// [`OnNoRoute::Serve`].
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::{LockLayer, OnNoRoute};
    ///
    /// let strict = LockLayer::new(locks).key("order:<id:u64>").on_no_route(OnNoRoute::Refuse);
    /// ```
    pub fn on_no_route(mut self, on_no_route: OnNoRoute) -> Self {
        self.options.on_no_route = on_no_route;
        self
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_goes_with_get() {
        let table = [
            (Methods::All, [true, true, true, true, true]),
            (Methods::Unsafe, [false, false, false, true, true]),
            (Methods::Only([Method::GET, Method::PATCH].into()), [true, true, false, false, true]),
            (Methods::Only([Method::HEAD].into()), [true, true, false, false, false]),
        ];
        let asked = [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::PATCH];
        for (methods, expected) in table {
            let found = [0, 1, 2, 3, 4].map(|at: usize| methods.include(&asked[at]));
            assert_eq!(found, expected, "{methods:?}");
        }
    }
}
