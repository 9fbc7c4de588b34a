//! What becomes of a request when something goes wrong on the way.

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
