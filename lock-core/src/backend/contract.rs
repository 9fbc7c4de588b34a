//! The calls of a store, and the promises of each call.

use std::fmt;
use std::future::Future;
use std::sync::Weak;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{
    Ask, Attempt, Capability, Claim, FencingToken, Finding, GrantId, Heartbeat, LatchState, LatchStep,
    LeaseCheck, Listed, LockInfo, NodeAnswer, Ping, Released, Renew, Renewal,
};
#[cfg(doc)]
use super::{Grant, Held, LeaseScope, Mode, Placement, Queue};
use crate::error::{LockError, LockErrorKind, LossReason, Result};
use crate::key::Key;
use crate::owner::Owner;

/// Receives the reports that a store sends without a request. The store's tasks call the listener, so the methods of
/// the listener must not block.
pub trait Listener: Send + Sync + fmt::Debug {
    /// The queued claim of `owner` was granted; `waiters` more claims are queued behind it.
    fn granted(&self, owner: Owner, waiters: usize);
    /// A claim began to wait for `key`, which this process holds.
    fn contended(&self, key: &str);
    /// The latch `key` is open.
    fn opened(&self, key: &str);
    /// The store no longer has the grant of `owner`, so the lock is lost at once. The reason is
    /// [`Forced`](LossReason::Forced) if [`Backend::force_release`] removed the grant, and [`Taken`](LossReason::Taken)
    /// if its key was deleted or changed. Without this call, the owner notices the loss at its next renewal.
    fn lost(&self, _owner: Owner, _reason: LossReason) {}
    /// The session that held the grants of `owners` has ended. Each of these grants is lost at once. The effect is the
    /// same as a call of [`lost`](Self::lost) with [`SessionEnded`](LossReason::SessionEnded) for each owner. One call
    /// reports all owners, because a process may hold ten thousand grants.
    fn session_ended(&self, owners: &[Owner]) {
        owners.iter().for_each(|owner| self.lost(*owner, LossReason::SessionEnded));
    }
    /// The store has evicted `count` keys for lack of memory since the last call of this method. Locks may be among
    /// these keys.
    fn keys_evicted(&self, _count: u64) {}
    /// Reports whether the node `_node` of a quorum votes. If `_stays_out` is true, the node does not vote, because it
    /// may have forgotten a lock, or because its clock was set. The store reports this when the listener is attached,
    /// and whenever it checks the node.
    fn quarantined(&self, _node: &str, _stays_out: bool) {}
    /// A server of the store has answered a ping. Each connection sends a ping about twice a second, and each runtime
    /// has its own connection.
    fn node_answered(&self, _answer: &NodeAnswer<'_>) {}
    /// The store is about to dial a server again, or to begin another session. After this call, the library creates
    /// only owners that differ from the owners of a copy of this process. Such a copy exists if a machine is started
    /// twice from one snapshot.
    fn dials(&self) {}
    /// A connection was established again. Earlier reports may be lost, so every waiter sends a request at once,
    /// including each waiter on [`Backend::changed`].
    fn reconnected(&self);
}

/// Returns the error of a call that a store does not support.
fn unsupported(detail: &'static str) -> LockError {
    LockError::new(LockErrorKind::Unsupported, detail)
}

/// A store, as the library calls it.
///
/// The library may drop the future of a call at any await point. The library then calls [`release`](Self::release) for
/// the same owner until the store answers, so a backend needs no clean-up of its own.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Returns the capability of this backend. Every call must return the same capability.
    fn capability(&self) -> Capability;

    /// Attempts the claim once, as `ask` specifies.
    ///
    /// # Behavior
    /// - Never waits for another holder.
    /// - Idempotent for an owner: after a grant, a repeated call returns *granted* with the same fencing token, and
    ///   never shortens the lease. With [`Ask::Probe`] a repeated call may return *held* instead.
    /// - Without [`Ask::Enqueue`] the claim is not queued. With [`Queue::Fifo`] the claim does not overtake a queued
    ///   claim.
    /// - With [`Ask::Probe`] the [`Held`] may be empty.
    /// - With [`Ask::Enqueue`] a refused claim is [queued](Held::queued_at), with three exceptions. A barging claim is
    ///   not queued while a holder of the same manager has the key ([`Held::own`]), because the process hands the grant
    ///   off itself. A claim is not queued if `room` claims or more already wait. A claim of several keys is not queued
    ///   if the store cannot queue such a claim.
    /// - With [`Ask::Enqueue`] a claim that is already queued stays queued. If the store needs heartbeats, the library
    ///   enqueues an owner only once, and [`heartbeat`](Self::heartbeat) then keeps the claim in the queue.
    /// - The oldest queued claim that is compatible with the holders is served first. A queued exclusive claim is
    ///   served before later shared claims.
    /// - A claim of several keys gets all of its keys or none.
    /// - If the key is in use in an incompatible mode (exclusive or shared instead of permits, or another number of
    ///   permits), the error is [`InvalidRequest`](crate::LockErrorKind::InvalidRequest). The text names both modes.
    /// - If an error leaves open whether the claim was granted or queued, the error is temporary. The caller then
    ///   treats the claim as possibly granted.
    /// - [`Grant::sent`] is a time before the winning request is sent.
    /// - A claim that [`renews`](Claim::renews) may be granted for less than its ttl. The library then renews the grant
    ///   after a third of the granted time. Under [`LeaseScope::Grant`] every other claim is granted for at least its
    ///   ttl.
    /// - If a claim requires that its holder is [notified](Claim::notify_holder) of waiters, the backend sends the
    ///   request for the claim only when the store can already [report](Listener::contended) waiters. The library makes
    ///   such claims only on a store that [notifies holders](super::Waiting::tells_holder).
    ///
    /// # Errors
    /// The store cannot be reached, refuses the claim, or does not support its mode.
    fn acquire(&self, claim: &Claim, ask: Ask) -> impl Future<Output = Result<Attempt>> + Send;

    /// Keeps a waiting claim in the queue, and grants it if its turn has come.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire), and `Unsupported` without [`Waiting::Queue`](super::Waiting::Queue).
    fn heartbeat(&self, claim: &Claim) -> impl Future<Output = Result<Heartbeat>> + Send {
        let error = unsupported("entries in the queue of this store need no heartbeat").with_key(&claim.key);
        std::future::ready(Err(error))
    }

    /// Renews a batch of grants, and returns one answer for each grant, in the same order.
    ///
    /// # Behavior
    /// - Extends only a grant of the same owner. Never shortens a grant, and never creates one.
    /// - Returns the lease that the store granted. This lease may differ from the requested lease, but is never longer
    ///   than the time for which the store keeps the grant.
    /// - Under [`LeaseScope::Session`], returns the time for which the session certainly lives. Renews no grant of an
    ///   earlier session.
    /// - A claim of several keys is renewed only if all its keys are renewed.
    /// - If a part of the batch fails, only that part is [`Renewal::Unknown`].
    fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> impl Future<Output = Vec<Renewal>> + Send + 'a;

    /// Returns the shard of the store that serves `claim`, if the shards answer independently, as the nodes of a Redis
    /// Cluster do. The library renews the claims of one shard in one call, so a slow shard does not delay the claims of
    /// another shard. The library calls this before each renewal, because a key may move to another shard.
    fn shard_of(&self, _claim: &Claim) -> u64 {
        0
    }

    /// Releases the claim: frees the grant, or removes the claim from the queue.
    ///
    /// With `keep_for`, the key stays locked for that time without renewal. So if a job ends early, another machine
    /// does not run the same job again.
    ///
    /// # Behavior
    /// - Idempotent. Changes only the grant and the queue entry of this owner.
    /// - The next claim in the queue is served at once, and notified.
    /// - Under [`LeaseScope::Session`], if the session of the grant has ended, the answer is [`Released::Expired`] or
    ///   [`Released::Taken`], and not an error.
    ///
    /// # Errors
    /// The store cannot be reached, or did not answer, so it may still have the grant. The library then calls again
    /// until the store answers. Under [`LeaseScope::Grant`] the library also stops when the lease is over.
    fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> impl Future<Output = Result<Released>> + Send;

    /// Returns the fencing token of a grant that came without a token.
    ///
    /// # Behavior
    /// - The token is larger than every earlier token of this key, even after the store lost its data.
    /// - A token is made only while the grant provably belongs to this owner.
    /// - The same owner with the same number of [hand-offs](Claim::handoffs) gets the same token again. The holder
    ///   after a later hand-off gets a larger token, which is also larger than [`Claim::own_fence`]. The library itself
    ///   numbers tokens only with [`Fencing::StoreTime`](super::Fencing::StoreTime).
    /// - A claim of several keys gets one token that is larger than the last token of each key.
    ///
    /// # Errors
    /// [`Lost`](crate::LockErrorKind::Lost) if the owner does not have the grant, and `Unsupported` without
    /// [`Capability::fencing`]. Also the errors of [`acquire`](Self::acquire).
    fn fence(&self, claim: &Claim) -> impl Future<Output = Result<FencingToken>> + Send {
        std::future::ready(Err(unsupported("this store gives no fencing tokens").with_key(&claim.key)))
    }

    /// Turns the exclusive grant of `claim` into a shared grant of the same owner, with a lease of the claim's ttl.
    /// Serves the queued claims that can share the key. From then on the claim is [`Mode::Shared`]. A repeated call
    /// with that mode returns the same answer. Only a claim of one key and of [`Kind::Write`](crate::Kind::Write) is
    /// downgraded.
    fn downgrade(&self, claim: &Claim) -> impl Future<Output = Renewal> + Send {
        let error = unsupported("this store has no shared locks").with_key(&claim.key);
        std::future::ready(Renewal::Unknown(error))
    }

    /// Performs one step of a count-down latch.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire), and `Unsupported` without [`Capability::latches`].
    fn latch(&self, key: &Key, _step: &LatchStep) -> impl Future<Output = Result<LatchState>> + Send {
        std::future::ready(Err(unsupported("this store has no count-down latches").with_key(key)))
    }

    /// Lists the held keys that begin with `prefix`, at most `limit` of them, with their holders.
    ///
    /// # Behavior
    /// - The list contains every key that is held during the whole call, unless more than `limit` keys are held.
    /// - The list shows no owner token, and no data from which a token could be guessed.
    /// - With `foreign`, the list also shows the holders of other libraries, without a record.
    /// - Does not block the store for long: a large store is read in parts.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire), and `Unsupported` without [`Capability::lists`].
    fn list(
        &self,
        _prefix: &str,
        _foreign: bool,
        _limit: usize,
    ) -> impl Future<Output = Result<Listed>> + Send {
        std::future::ready(Err(unsupported("this store cannot say who holds its locks")))
    }

    /// Returns the holders of `key`, or `None` if the key is free. Sends one request, even if the store holds many
    /// keys.
    ///
    /// # Behavior
    /// - Shows the same holders of this key as [`list`](Self::list) with `foreign`: every holder that excludes others.
    ///
    /// # Errors
    /// The errors of [`list`](Self::list). If the store refuses every claim because of the data at the key, also the
    /// error of [`acquire`](Self::acquire).
    fn inspect(&self, key: &Key) -> impl Future<Output = Result<Option<LockInfo>>> + Send {
        std::future::ready(Err(unsupported("this store cannot say who holds its locks").with_key(key)))
    }

    /// Removes the grant `id` of `key` from the store. Returns whether there was such a grant.
    ///
    /// # Behavior
    /// - Removes this grant alone: a later holder keeps its own grant.
    /// - The next claim in the queue is served at once, and the holder is notified by [`Listener::lost`].
    ///
    /// # Errors
    /// The errors of [`list`](Self::list).
    fn force_release(&self, key: &Key, _id: &GrantId) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Err(unsupported("this store cannot take a lock from its holder").with_key(key)))
    }

    /// Returns whether the store serves locks now, for [`LockManager::ping`](crate::LockManager::ping).
    ///
    /// # Behavior
    /// - Acquires no lock, and takes no longer than any other call.
    /// - Fails if an [`acquire`](Self::acquire) of a free key would fail. The error names the server.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire), and `Unsupported` if the backend has no such call.
    fn ping(&self) -> impl Future<Output = Result<Ping>> + Send {
        std::future::ready(Err(unsupported(
            "this store has no ping: write `Backend::ping`, or inspect a key instead",
        )))
    }

    /// Returns the problems of the store's configuration that endanger locks, for
    /// [`LockManager::doctor`](crate::LockManager::doctor).
    ///
    /// # Behavior
    /// - Only reads data, and ends within the time of a few calls.
    /// - If the user lacks the right to read something, a note names that right. The call does not fail.
    ///
    /// # Errors
    /// The errors of [`ping`](Self::ping), and `Unsupported` if the backend has no such call.
    fn doctor(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send {
        std::future::ready(Err(unsupported("this store has no doctor: write `Backend::doctor`")))
    }

    /// Returns the statement with which a transaction of the application checks the lease of a claim. Returns `None` if
    /// the store is not in a database of the application.
    ///
    /// # Behavior
    /// - If this owner does not have the grant, the statement fails, and the transaction fails with it.
    /// - After the statement succeeds, no other owner gets a key of the claim until the transaction has ended, even if
    ///   the lease ends earlier. Renewals continue, and no call of this store waits for the transaction.
    fn lease_check(&self, _claim: &Claim) -> Option<LeaseCheck> {
        None
    }

    /// Attaches a manager, whose owners belong to `process` (see [`Owner::process`]). Each manager calls this once,
    /// before its first claim. A further call for the same process adds another listener, but no other session.
    ///
    /// `background` is the runtime for work that must continue even if the application blocks its own runtimes, such as
    /// the store's session, its keep-alives and its reconnections.
    ///
    /// # Behavior
    /// - After the call, `listener` receives the reports about the owners of `process`. These reports are hints: they
    ///   may arrive early, twice or never.
    /// - With a [remote](Placement::Remote) store, `background` is the runtime of the library's own thread. This
    ///   runtime exists before the call. It keeps running even if the protected code blocks every worker of the
    ///   application's runtime. The renewals use the same runtime, so tasks there must not block. The tasks end with
    ///   the manager: after its last releases are answered, but at most 2 s after its last guard and handle are
    ///   dropped.
    /// - With an [embedded](Placement::Embedded) store, there is no such thread. `background` is then the runtime
    ///   within which the manager was built, so that one paused clock drives both. It is `None` if the manager was
    ///   built outside of a runtime. An embedded store must not depend on `background`.
    /// - A store with sessions begins the session of this manager in this call. Two managers that share the store have
    ///   two sessions, and each session runs on the thread of its own manager.
    /// - Returns at once. If a session cannot be established, the calls that need it return the error.
    fn attach(&self, _process: u128, _listener: Weak<dyn Listener>, _background: Option<&Handle>) {}

    /// Completes when another attempt at the claim makes sense. This is a hint: it may arrive early, late or never.
    ///
    /// # Behavior
    /// - The library calls this once for a wait. It keeps the future over the pauses of the wait, and polls the future
    ///   between the requests of the waiter. The library calls this again after the future has completed, and after the
    ///   claim has joined or left the queue. It also calls again if the future is pending for 2 s with a remote store,
    ///   or 60 s with an embedded store. In this last case, the waiter also sends a request.
    /// - Setting a watch may take time. A change between the last answer and the first poll must also complete the
    ///   future. So the backend reads the key after it has set the watch.
    /// - If the future is dropped, at any await point, no watch remains.
    fn changed(&self, _claim: &Claim) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Returns whether other claims wait for the key that `claim` holds. The library calls this only if the store does
    /// not [notify holders](super::Waiting::tells_holder). If a process has waiters of its own, the library calls this
    /// after 10 ms of hand-offs. Until the answer arrives, the hand-offs continue. If no other process waits, the
    /// process keeps the key.
    ///
    /// # Behavior
    /// - Answers `true` if a claim waits that this process [cannot serve](crate::owner::Owner::may_hand_off_to) itself.
    ///   The answer may be slightly outdated, because the library calls again later.
    /// - Answers `true` if `claim` does not hold the key. The process then stops handing the key off.
    /// - If the store cannot find out whether others wait, the answer is `true`, without I/O.
    ///
    /// # Errors
    /// The errors of [`acquire`](Self::acquire). After an error, the library assumes that others wait.
    ///
    /// # Cancel safety
    /// Changes nothing. The library drops the future if there is no answer within 100 ms.
    fn others_wait(&self, _claim: &Claim) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(true))
    }

    /// Closes connections and ends tasks. Under [`LeaseScope::Grant`] the grants stay in the store. Under
    /// [`LeaseScope::Session`] the session and all its grants end.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
