//! Leader election: one of all candidates for a key leads, and when it ends or dies, another one does.
//!
//! [`LockManager::leader`](crate::LockManager::leader) makes a [`LeaderElection`]. A candidate campaigns and then holds
//! a [`Leadership`], or lets [`run`](LeaderElection::run) do both: the body runs for as long as the candidate leads, and
//! again after a loss. Others ask for the [`current`](LeaderElection::current) leader, or follow the
//! [`changes`](LeaderElection::changes).
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
//! The leader holds an exclusive lock of the key, with a fencing token, and every other candidate waits for that lock
//! without a limit. There is no other protocol: [`locks`](crate::LockManager::locks) lists the leader,
//! [`force_release`](crate::LockManager::force_release) deposes it, and a [`lock`](crate::LockManager::lock) of the
//! same key keeps candidates out. If the store keeps an order of arrival, candidates lead in that order.
//!
//! The lock is one in order of arrival, because a barging lock is handed off inside the process, and the store would then
//! show the record of the previous leader. An observer reads the present leader with `inspect`, once in each pause:
//! [`changed`](crate::backend::Backend::changed) would count the observer among the waiters.
//!
//! # What it can promise
//! Leader election can promise as much as a lock can. A leader that is stopped for longer than its ttl has lost the
//! lead when it continues, and learns of it before its body is polled again. A write that it sent before may arrive
//! later: *the resource that the leader writes to must compare the fencing token*, which is larger for every new
//! leader. With that, there is one leader at a time.
//!
//! When a leader dies, another leads after at most the ttl, and what the store needs to notify it: on Redis less than a
//! heartbeat, 2/3 s. If the candidate that was next in line has died as well, it takes up to min(ttl, 2 s) longer. When
//! a leader resigns, another leads at once.

// The state that the clones of an election share: whether they lead, and whether they were asked to resign.
mod candidate;
// A change, and when it is reported.
mod change;
// The stream of changes.
mod changes;
// The candidate: campaign, read the leader, resign.
mod election;
// The present leader, made from an answer of the store.
#[allow(clippy::module_inception, reason = "the file is named after its type")]
mod leader;
// The value that represents the lead.
mod leadership;
// A body for as long as its candidate leads.
mod run;

pub use change::LeaderChange;
pub use changes::LeaderChanges;
pub use election::LeaderElection;
pub use leader::Leader;
pub use leadership::Leadership;
