//! Leader election: one of all candidates for a key leads, and if it resigns or dies, another candidate leads.
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
//! The lock uses the order of arrival, because a barging lock is handed off inside the process, and the store would
//! then show the record of the previous leader. An observer reads the current leader with `inspect`, once per pause. It
//! does not use [`changed`](crate::backend::Backend::changed), which would count the observer as a waiter.
//!
//! # What it can promise
//! Leader election can promise as much as a lock can. A leader that is stopped for longer than its ttl has lost the
//! leadership when it continues, and learns of the loss before its body is polled again. A write that it sent before
//! may still arrive later. So *the resource must compare the fencing token* of each write. The token is larger for
//! every new leader. With this check, only one leader at a time can change the resource.
//!
//! When a leader dies, another candidate leads after at most the ttl, plus the time in which the store notifies the
//! candidate. On Redis that is less than a heartbeat of 2/3 s. If the next candidate in line has died as well, this
//! takes up to min(ttl, 2 s) longer. When a leader resigns, another candidate leads at once.

// The state that the clones of an election share: whether they lead, and whether they were asked to resign.
mod candidate;
// The changes of the leader, and when each is reported.
mod change;
// The stream of changes.
mod changes;
// The candidate: campaign, read the leader, resign.
mod election;
// The current leader, made from an answer of the store.
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
