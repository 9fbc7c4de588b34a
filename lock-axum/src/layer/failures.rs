//! How long the lock is held, and what happens when something goes wrong.

use lock_core::{OnLost, Release};

use super::builder::LockLayer;
use crate::config::{OnDisconnect, OnNoRoute, OnStoreError};
use crate::hold::Hold;

impl<K> LockLayer<K> {
    /// Sets when the lock is released. Default: [`Hold::Auto`].
    pub fn hold(mut self, hold: Hold) -> Self {
        self.options.hold = hold;
        self
    }

    /// Sets what an answer waits for once the handler, or with [`Hold::Body`] its body, has ended. Default: the
    /// profile's, else [`Release::Await`]: a client that has its answer finds the key free, on every server.
    ///
    /// With [`Release::Background`] the answer is sent while the release is under way. The next request for the key to
    /// this process is not refused because of it; a request to another process may be, for a round trip. [`Release`]
    /// says what else that gives up.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::LockLayer;
    /// use lock_core::Release;
    ///
    /// let quick = LockLayer::new(locks).key("session:<id>").release(Release::Background);
    /// ```
    pub fn release(mut self, release: Release) -> Self {
        self.options.own = self.options.own.release(release);
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

    /// Sets what happens to the handler when the lock is lost. Default: the profile's, else [`OnLost::Cancel`], which
    /// drops the handler before another request can hold the lock.
    ///
    /// Either way the client gets 503, with [`OnLost::Finish`] after the handler has ended. A body that carries the
    /// lock is sent to its end with `OnLost::Finish`, and cut with `OnLost::Cancel`.
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
        self.options.own = self.options.own.on_lost(on_lost);
        self
    }

    /// Sets what happens to a request when the lock store cannot be reached. A key that is held, a bad request and a
    /// misconfigured layer are always refused. Default: [`OnStoreError::Reject`].
    ///
    /// The strategy comes first: a request that [waits](Self::wait) for its lock waits as long for the store, and with
    /// [`strategy::wait`](lock_core::strategy::wait()) for ever. A handler that runs unlocked has no
    /// [`LockHandle`](crate::LockHandle), so it extracts an `Option<LockHandle>`.
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

    /// Sets what happens to a request for which axum found no route, for a layer around services with routes of their
    /// own. Default: [`OnNoRoute::RefuseNested`], so that nothing runs unlocked there.
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
