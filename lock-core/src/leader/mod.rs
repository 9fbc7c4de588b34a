//! Implements leader election. One candidate for a key leads, and if it resigns or dies, another candidate leads.
//!
//! [`LockManager::leader`](crate::LockManager::leader) makes a [`LeaderElection`]. A candidate campaigns, and then
//! holds a [`Leadership`]. Alternatively, [`run`](LeaderElection::run) does both: the body runs while the candidate
//! leads, and runs again after a loss. Other programs read the [`current`](LeaderElection::current) leader, or follow
//! the [`changes`](LeaderElection::changes).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), lock_core::LockError> {
//! use lock_core::LockManager;
//!
//! let locks = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?
//! let election = locks.leader("scheduler");
//! let planned = election
//!     .run(|lease| async move {
//!         let token = lease.fencing_token().await?; // known already: no round trip
//!         // Plans until the leader is deposed: the future is dropped then, and made anew after the next election.
//!         println!("UPDATE plan SET .., fence = {token} WHERE fence <= {token}");
//!         Ok::<_, lock_core::LockError>("planned")
//!     })
//!     .await?;
//! assert_eq!(planned.transpose()?, Some("planned"));
//! # Ok(())
//! # }
//! ```
//!
//! # What it is made of
//! The leader holds an exclusive lock of the key, with a fencing token. Every other candidate waits for that lock
//! without a time limit. There is no other protocol. So [`locks`](crate::LockManager::locks) lists the leader,
//! [`force_release`](crate::LockManager::force_release) deposes it, and a [`lock`](crate::LockManager::lock) of the
//! same key keeps candidates out. If the store keeps an order of arrival, candidates lead in that order.
//!
//! On such a store the lock is [fair](crate::LockManager::fair). Another lock could be handed off inside the process,
//! and the store would then show the record of the previous leader. An observer reads the current leader with
//! `inspect`, after each [pause](LeaderChanges::every). The observer does not use
//! [`changed`](crate::backend::Backend::changed), because the store would count the observer as a waiter.
//!
//! # What it can promise
//! Leader election gives the same guarantees as a lock. If the process of a leader is stopped for longer than its ttl,
//! the leadership is lost. When the process continues, the loss is detected before the body is polled again. A write
//! that the body sent before may still arrive later. So *the resource must compare the fencing token* of each write.
//! The token is larger for every new leader. With this check, only one leader at a time can change the resource.
//!
//! When a leader dies, another candidate leads after at most the ttl, plus the time that the store needs to notify the
//! candidate. On Redis, the notification takes less than 2/3 s, the interval between two heartbeats. If the next
//! candidate in line has died as well, the change takes up to min(ttl, 2 s) longer. When a leader resigns, another
//! candidate leads at once.

// The state that the clones of an election share: its terms, and the requests to resign.
mod candidate;
// The changes of the leader, and which states are reported as a change.
mod change;
// The stream of changes.
mod changes;
// The election: a candidate campaigns, reads the current leader, and resigns.
mod election;
// The current leader according to an answer of the store.
#[allow(clippy::module_inception, reason = "the file is named after its type")]
mod leader;
// The value that represents leading.
mod leadership;
// Runs a body while its candidate leads.
mod run;

pub use change::LeaderChange;
pub use changes::LeaderChanges;
pub use election::LeaderElection;
pub use leader::Leader;
pub use leadership::Leadership;
