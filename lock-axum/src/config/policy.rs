//! Defines how a layer treats a request after a failure.

/// The treatment of a handler when its client disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnDisconnect {
    /// The server drops the handler at its next await point, as it does without the layer, and the lock is released.
    /// This is the default.
    #[default]
    Cancel,
    /// The handler runs to its end in its own task, which holds the lock until then. But a request that still waits for
    /// its lock is dropped.
    ///
    /// Neither a timeout nor the loss of an outer layer's lock stops the handler. If there are several lock layers, set
    /// this option on the outermost layer. The loss of this layer's lock stops the handler: see
    /// [`on_lost`](crate::LockLayer::on_lost). The task has no task-local values of other crates. The task cannot read
    /// the part of the body that the client has not sent. A server that shuts down does not wait for the task, but
    /// [`LockManager::shutdown`](lock_core::LockManager::shutdown) does, up to its grace period.
    Finish,
}

/// The treatment of a request when the lock store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnStoreError {
    /// The request is refused with 503. This is the default.
    #[default]
    Reject,
    /// The request is served **without a lock**, even if other requests for the key run at the same time. Use this if a
    /// rare double execution of the work costs less than an outage. A metric counts such requests, and the log reports
    /// them. The layer first calls the store for each request. The handler starts when that call has failed: on Redis
    /// at most the `timeout` of the URL later, which is 500 ms by default.
    RunUnlocked,
}

/// The treatment of a request for which the router found no route. This matters only if the key needs a route, because
/// it has a path parameter or `<route>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnNoRoute {
    /// This is the default. If the router passes the request on to a service with its own routes, by
    /// [`nest_service`](axum::Router::nest_service), the answer is 500, because only the inner service has the values
    /// for the key. The log reports this once. Any other request is served as with [`Serve`](Self::Serve), so that a
    /// 404 remains a 404.
    #[default]
    RefuseNested,
    /// The request is served **without a lock**. If the answer is not a 404, the log reports it once.
    Serve,
    /// The request is answered with 500, and the log reports it once. No request runs without the lock, and a 404
    /// becomes a 500.
    Refuse,
}
