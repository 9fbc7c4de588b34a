//! Defines [`Release`], an option that decides whether the caller of a body waits for the release.

/// Whether the caller of a body waits for the answer to the release after the body has ended.
///
/// [`Background`](Self::Background) saves the round trip of the release. It has these costs:
///
/// - **When the caller receives its result, the key may still be locked.** Until the release arrives at the store, an
///   attempt in another process may be refused.
/// - **The next acquisition of the key by this process may wait.** The acquisition first waits for the answer to the
///   release, for at most a second. So the pending release does not make the acquisition fail.
/// - **The caller does not learn of a failed release**, as with a dropped guard. The release is repeated in the
///   background until the lease is over. The log, the metric `lock.client.release_errors` and the event
///   [`ReleaseFailed`](crate::LockEvent::ReleaseFailed) report it.
/// - **The runtime of the caller sends the release.** A current-thread runtime that is no longer driven sends nothing
///   until it is driven again, or dropped.
/// - **A process that exits** right afterwards may leave the key locked until its ttl is over.
///   [`LockManager::shutdown`](crate::LockManager::shutdown) waits for the releases that are under way.
///
/// With both values, if another task of this process waits for the key, that task gets the grant without a release.
/// [`LockGuard::release`] always waits for the answer.
///
/// # A loss that only the release finds
///
/// A loss that is known when the body ends is always returned as an error. But a deleted key, or a failover that lost the
/// lock, is noticed only at the next renewal, within a third of the ttl. If the body ends before that, only the answer to
/// the release shows the loss. With both values, the caller then gets the result of the body, and no error. The log warns
/// of it, at most once in 10 s for each template, and the metric and the event above report it. A caller that must know
/// compares the fencing token where it writes, or releases a guard with [`LockGuard::release`], which returns the answer.
///
/// [`LockGuard::release`]: crate::LockGuard::release
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The caller waits for the answer to the release, for at most a second. So the key is usually free when the caller
    /// receives the result of the body. This is the default.
    #[default]
    Await,
    /// The caller does not wait. The release continues while the caller already has the result of the body.
    Background,
}
