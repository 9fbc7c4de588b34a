//! Sets the options that define when the lock is released, and what happens after a failure.

use super::builder::LockLayer;
use crate::config::{OnDisconnect, OnNoRoute, OnStoreError};
use crate::hold::Hold;

impl<K> LockLayer<K> {
    /// Sets when the lock is released. Default: [`Hold::Auto`].
    pub fn hold(mut self, hold: Hold) -> Self {
        self.options.hold = hold;
        self
    }

    /// Sets what happens to the handler when its client disconnects. Default: [`OnDisconnect::Cancel`].
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

    /// Sets what happens to a request when the lock store cannot be reached. This does not apply to a request whose key
    /// is held or invalid, or whose layer is misconfigured: such a request is always refused. Default:
    /// [`OnStoreError::Reject`].
    ///
    /// The strategy is applied first: a request with a [`wait`](Self::wait) retries until that time is over. With
    /// [`strategy::wait`](lock_core::strategy::wait()) the request retries for ever. A handler that runs unlocked has
    /// no [`LockHandle`](crate::LockHandle), so it extracts an `Option<LockHandle>`.
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

    /// Sets what happens to a request for which axum found no route. Use this option for a layer around services with
    /// their own routes. Default: [`OnNoRoute::RefuseNested`], so that such services do not run unlocked.
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
}
