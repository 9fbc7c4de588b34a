//! Defines whether the end of a body waits for the answer to the release.

/// Whether the caller of a body waits for the answer to the release after the body has ended.
///
/// [`Background`](Self::Background) saves the round trip of the release. It has these costs:
///
/// - **When the caller has its result, the key may still be locked.** The release is under way. Until it arrives, an
///   attempt of another process may be refused.
/// - **The next acquisition of the key by this process is not refused because of the release.** It first waits for the
///   answer to the release, for at most a second.
/// - **The caller does not learn of a failed release**, as with a dropped guard. The release is repeated in the
///   background until the lease is over. The log, the metric `lock.client.release_errors` and the event
///   [`ReleaseFailed`](crate::LockEvent::ReleaseFailed) report it. The same applies if the release shows that the lock
///   was lost before. (A loss that was known when the body ended is always returned as an error.)
/// - **The runtime of the caller sends the release.** A current-thread runtime that is no longer driven sends nothing
///   until it is driven again, or dropped.
/// - **A process that exits** right afterwards may leave the key locked until its ttl is over.
///   [`LockManager::shutdown`](crate::LockManager::shutdown) waits for the releases that are under way.
///
/// If a waiter exists in this process, it gets the grant without any release, as always. [`LockGuard::release`] always
/// waits for its answer.
///
/// [`LockGuard::release`]: crate::LockGuard::release
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The caller waits for the answer to the release, for at most a second. When it has the result of the body, the
    /// key is free. This is the default.
    #[default]
    Await,
    /// The caller does not wait. When it has the result of the body, the release is under way.
    Background,
}
