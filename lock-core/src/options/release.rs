//! What the end of a body waits for: the answer to the release, or nothing.

/// What a body's caller waits for once the body has ended: the answer to the release, or nothing.
///
/// [`Background`](Self::Background) saves the round trip of the release. The price:
///
/// - **When the caller has its answer, the key may still be locked.** The release is under way. Another process that
///   tries at that moment may be refused, for as long as the release takes to arrive.
/// - **The next acquisition of the key by this process is not refused by its own release.** It first waits for the
///   answer to the release, for at most a second.
/// - **The caller does not learn of a release that fails**, as for a dropped guard: it is repeated in the background
///   until the lease is over, and reported by the log, the metric `lock.client.release_errors` and the event
///   [`ReleaseFailed`](crate::LockEvent::ReleaseFailed). The same goes for a lock that turns out to have been lost
///   before its release. (A loss that was known when the body ended is returned as an error in any case.)
/// - **The runtime of the caller sends the release.** A current-thread runtime that is no longer driven sends nothing
///   until it is driven again, or dropped.
/// - **A process that exits** right afterwards may leave the key locked until its ttl is over.
///   [`LockManager::shutdown`](crate::LockManager::shutdown) waits for the releases that are under way.
///
/// A waiter of this process gets the grant without any release, as always. [`LockGuard::release`] waits for its answer
/// in any case.
///
/// [`LockGuard::release`]: crate::LockGuard::release
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The caller waits for the answer to the release, for at most a second. A caller that has the result of the body
    /// finds the key free. The default.
    #[default]
    Await,
    /// The caller does not wait. The release is under way when the caller has the result of the body.
    Background,
}
