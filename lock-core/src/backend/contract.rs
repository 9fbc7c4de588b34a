//! The calls of a store, and what each promises.

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

/// A receiver of what a store reports on its own. The store's tasks call it, so its methods must not block.
pub trait Listener: Send + Sync + fmt::Debug {
    /// The queued claim of `owner` was granted; `waiters` more claims wait after it.
    fn granted(&self, owner: Owner, waiters: usize);
    /// A claim began to wait for `key`, which this process holds.
    fn contended(&self, key: &str);
    /// The latch `key` is open.
    fn opened(&self, key: &str);
    /// The grant of `owner` is gone from the store: [`Forced`](LossReason::Forced) if [`Backend::force_release`]
    /// removed it, [`Taken`](LossReason::Taken) if its key was deleted or changed. The lock is lost at once. Without
    /// this call the owner notices the loss with its next renewal.
    fn lost(&self, _owner: Owner, _reason: LossReason) {}
    /// The session that held the grants of `owners` is over, and they are gone: each is lost at once, as by
    /// [`lost`](Self::lost) with [`SessionEnded`](LossReason::SessionEnded). One call for all of them, because a
    /// process may hold ten thousand.
    fn session_ended(&self, owners: &[Owner]) {
        owners.iter().for_each(|owner| self.lost(*owner, LossReason::SessionEnded));
    }
    /// The store evicted `count` keys for lack of memory since the last call; locks may be among them.
    fn keys_evicted(&self, _count: u64) {}
    /// The node `node` of a quorum does not vote if `_stays_out`, because it may have forgotten a lock or its clock was
    /// set. Reported when the listener is attached, and whenever the store checks the node.
    fn quarantined(&self, _node: &str, _stays_out: bool) {}
    /// A server of the store has answered a ping. Each connection sends one about twice a second, and each runtime has
    /// its own connection.
    fn node_answered(&self, _answer: &NodeAnswer<'_>) {}
    /// The store is about to dial a server again, or to begin another session. Owners that are made after this differ
    /// from the owners of a copy of this process, such as a machine that was started twice from one snapshot.
    fn dials(&self) {}
    /// A connection was established again. Earlier reports may be lost, so every waiter asks the store at once, also a
    /// waiter on [`Backend::changed`].
    fn reconnected(&self);
}

/// Returns the error of a call that a store does not have.
fn unsupported(detail: &'static str) -> LockError {
    LockError::new(LockErrorKind::Unsupported, detail)
}

/// A store.
///
/// Every call may be dropped at any await point: the library then calls [`release`](Self::release) for the same owner
/// until it is answered, so a backend needs no clean-up of its own.
pub trait Backend: Send + Sync + fmt::Debug + 'static {
    /// Returns the capability of this backend, which must not change.
    fn capability(&self) -> Capability;

    /// Attempts the claim once, in the way that `ask` says.
    ///
    /// # Behavior
    /// - Never waits for another holder.
    /// - Idempotent for an owner: asked again after a grant it answers *granted*, with the same fencing token, and
    ///   never shortens the lease. With [`Ask::Probe`] it may answer *held* instead.
    /// - Without [`Ask::Enqueue`] the claim is not queued, and with [`Queue::Fifo`] it overtakes no claim that is.
    /// - With [`Ask::Probe`] the [`Held`] may be empty.
    /// - With [`Ask::Enqueue`] a claim that is refused is [queued](Held::queued_at), with three exceptions: a barging
    ///   claim while a holder of the same manager has the key ([`Held::own`]: the process hands the grant off itself);
    ///   a queue of `room` claims or more; and, if the store cannot do that, a claim of several keys.
    /// - With [`Ask::Enqueue`] a queued claim stays queued. If queued claims live on heartbeats, an owner is enqueued
    ///   once and then kept in the queue by [`heartbeat`](Self::heartbeat).
    /// - The oldest queued claim that can be served beside the holders is served first; a queued exclusive claim goes
    ///   before later shared ones.
    /// - A claim of several keys gets all of them or none.
    /// - A key that is in use in an incompatible mode (exclusive or shared instead of permits, permits of another
    ///   number) is [`InvalidRequest`](crate::LockErrorKind::InvalidRequest), and the text names both.
    /// - An error that does not say whether the claim was granted or queued is temporary; the caller treats the claim
    ///   as possibly granted.
    /// - [`Grant::sent`] is read before the winning request is sent.
    /// - A claim that [`renews`](Claim::renews) may be granted for less than its ttl, and is then renewed when a third of
    ///   that is over. Under [`LeaseScope::Grant`] any other is granted for its ttl at least.
    /// - If the holder of a claim must be [notified](Claim::notify_holder) of waiters, nothing is sent before the store
    ///   can [report](Listener::contended) them. Only a store that [tells a holder](super::Waiting::tells_holder) is
    ///   asked for that.
    ///
    /// # Errors
    /// The store cannot be reached, refuses the claim, or does not support its mode.
    fn acquire(&self, claim: &Claim, ask: Ask) -> impl Future<Output = Result<Attempt>> + Send;

    /// Keeps a waiting claim in the queue, and grants it if its turn has come.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). `Unsupported` without [`Waiting::Queue`](super::Waiting::Queue).
    fn heartbeat(&self, claim: &Claim) -> impl Future<Output = Result<Heartbeat>> + Send {
        let error = unsupported("entries in the queue of this store need no heartbeat").with_key(&claim.key);
        std::future::ready(Err(error))
    }

    /// Renews a batch, and returns one answer for each part, in the same order.
    ///
    /// # Behavior
    /// - Extends only a grant of the same owner, never shortens it, never makes one.
    /// - Answers the lease that it gave. It may differ from the requested one, and is never longer than the store
    ///   keeps.
    /// - Under [`LeaseScope::Session`], answers the time for which the session is certain. Renews no grant of an
    ///   earlier session.
    /// - A claim of several keys is renewed when all its keys are.
    /// - A part of the batch that fails is [`Renewal::Unknown`] for that part alone.
    fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> impl Future<Output = Vec<Renewal>> + Send + 'a;

    /// Returns the shard of the store that answers for `claim`, if the shards answer independently, as the nodes of a
    /// Cluster do. Claims of one shard are renewed in one call, which does not delay those of another. Called before
    /// each renewal, because a key may move.
    fn shard_of(&self, _claim: &Claim) -> u64 {
        0
    }

    /// Releases the claim: frees the grant, or leaves the queue.
    ///
    /// With `keep_for` the key stays locked for that time without renewal (a job that ends early must not run again on
    /// the next machine).
    ///
    /// # Behavior
    /// - Touches only the grant and the queue entry of this owner; idempotent.
    /// - The next claim in the queue is served at once, and notified.
    /// - Under [`LeaseScope::Session`], the answer for a grant whose session is over is that of a free or taken key,
    ///   and not an error.
    ///
    /// # Errors
    /// The store cannot be reached, or did not answer: it may still have the grant. The library calls again: until the
    /// lease is over under [`LeaseScope::Grant`], until the store answers under [`LeaseScope::Session`].
    fn release(
        &self,
        claim: &Claim,
        keep_for: Option<Duration>,
    ) -> impl Future<Output = Result<Released>> + Send;

    /// Returns the fencing token of a grant that came without one.
    ///
    /// # Behavior
    /// - The token is larger than every earlier token of this key, even after the store lost its data.
    /// - A token is made only while the grant provably belongs to this owner.
    /// - The same owner and number of [hand-offs](Claim::handoffs) get the same token again. A later hand-off gets a
    ///   larger token, which is also larger than [`Claim::own_fence`]: only with
    ///   [`Fencing::StoreTime`](super::Fencing::StoreTime) does the library number tokens itself.
    /// - A claim of several keys gets one token that is larger than the last token of each key.
    ///
    /// # Errors
    /// [`Lost`](crate::LockErrorKind::Lost) when the owner does not have the grant; else as [`acquire`](Self::acquire).
    /// `Unsupported` without [`Capability::fencing`].
    fn fence(&self, claim: &Claim) -> impl Future<Output = Result<FencingToken>> + Send {
        std::future::ready(Err(unsupported("this store gives no fencing tokens").with_key(&claim.key)))
    }

    /// Turns the exclusive grant of `claim` into a shared one of the same owner, with a lease of its ttl, and serves
    /// the claims that can share it. From then on the claim is [`Mode::Shared`]; called again with that mode, it
    /// answers the same.
    fn downgrade(&self, claim: &Claim) -> impl Future<Output = Renewal> + Send {
        let error = unsupported("this store has no shared locks").with_key(&claim.key);
        std::future::ready(Renewal::Unknown(error))
    }

    /// Takes one step of a count-down latch.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Unsupported` without [`Capability::latches`].
    fn latch(&self, key: &Key, _step: &LatchStep) -> impl Future<Output = Result<LatchState>> + Send {
        std::future::ready(Err(unsupported("this store has no count-down latches").with_key(key)))
    }

    /// Lists the held keys that begin with `prefix`, at most `limit` of them, with their holders.
    ///
    /// # Behavior
    /// - Contains every key that is held during the whole call, unless there are more than `limit`.
    /// - Shows no owner token, nor anything from which one could be guessed.
    /// - With `foreign`, shows the holders of other libraries too, without a record.
    /// - Does not block the store for long: reads a large one in parts.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Unsupported` without [`Capability::lists`].
    fn list(
        &self,
        _prefix: &str,
        _foreign: bool,
        _limit: usize,
    ) -> impl Future<Output = Result<Listed>> + Send {
        std::future::ready(Err(unsupported("this store cannot say who holds its locks")))
    }

    /// Returns the holders of `key`, `None` if the key is free, with one request however much the store holds.
    ///
    /// # Behavior
    /// - Shows what [`list`](Self::list) with `foreign` shows of this key: every holder that excludes others.
    ///
    /// # Errors
    /// As [`list`](Self::list); if the key holds data that refuse every claim, the error of [`acquire`](Self::acquire).
    fn inspect(&self, key: &Key) -> impl Future<Output = Result<Option<LockInfo>>> + Send {
        std::future::ready(Err(unsupported("this store cannot say who holds its locks").with_key(key)))
    }

    /// Takes the grant `id` of `key` away from its holder. Returns whether there was such a grant.
    ///
    /// # Behavior
    /// - Touches this grant alone: a holder that came later keeps what it has.
    /// - The next claim in the queue is served at once, and the holder is notified by [`Listener::lost`].
    ///
    /// # Errors
    /// As [`list`](Self::list).
    fn force_release(&self, key: &Key, _id: &GrantId) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Err(unsupported("this store cannot take a lock from its holder").with_key(key)))
    }

    /// Returns whether the store serves locks now, for [`LockManager::ping`](crate::LockManager::ping).
    ///
    /// # Behavior
    /// - Locks nothing, and ends within the time of any other call.
    /// - Fails if an [`acquire`](Self::acquire) of a free key would, and the error names the server.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Unsupported` if the backend has no such call.
    fn ping(&self) -> impl Future<Output = Result<Ping>> + Send {
        std::future::ready(Err(unsupported(
            "this store has no ping: write `Backend::ping`, or inspect a key instead",
        )))
    }

    /// Looks for what endangers locks in the way the store is set up, for [`LockManager::doctor`](crate::LockManager::doctor).
    ///
    /// # Behavior
    /// - Only reads, and ends within the time of a few calls.
    /// - What the user may not read is a note that names the missing right, and no error.
    ///
    /// # Errors
    /// As [`ping`](Self::ping); `Unsupported` if the backend has no such call.
    fn doctor(&self) -> impl Future<Output = Result<Vec<Finding>>> + Send {
        std::future::ready(Err(unsupported("this store has no doctor: write `Backend::doctor`")))
    }

    /// Returns the statement by which a transaction of the application checks the lease of a claim. `None` if the store
    /// is in no database.
    ///
    /// # Behavior
    /// - The statement fails, and with it the transaction, unless the grant is this owner's.
    /// - From then on until the transaction has ended, no other owner gets a key of the claim, also when the lease ends
    ///   meanwhile. Renewals go on, and no call of this store waits for the transaction.
    fn lease_check(&self, _claim: &Claim) -> Option<LeaseCheck> {
        None
    }

    /// Attaches a manager, whose owners are those of `process` (see [`Owner::process`]). Called once by each manager
    /// before its first claim. A further call for the same process brings another listener, and no other session.
    ///
    /// `background` is the runtime for work that must continue whatever the application does: the store's session, its
    /// keep-alives, its reconnections.
    ///
    /// # Behavior
    /// - After that `listener` gets the reports about the owners of `process`: hints, which may come early, twice or
    ///   never.
    /// - Over a [remote](Placement::Remote) store `background` is the runtime of the library's own thread. It exists
    ///   before this call, and a body that blocks every worker of the application's runtime does not stop it. Tasks
    ///   spawned there share it with the renewals, so they must not block. They end with the manager: at most 2 s after
    ///   its last guard and handle are gone, once the last releases are answered.
    /// - Over an [embedded](Placement::Embedded) store there is no such thread: `background` is the runtime within
    ///   which the manager was built, so that a paused clock drives both, and `None` if it was built outside of one.
    ///   Such a store must not depend on it.
    /// - A store with one session for each process begins it here, for this process alone: two managers that share the
    ///   store have a session each, and each is driven on the thread of its own manager.
    /// - Returns at once. If a session cannot be established, the calls that need it return the error.
    fn attach(&self, _process: u128, _listener: Weak<dyn Listener>, _background: Option<&Handle>) {}

    /// Completes when another attempt at the claim makes sense; a hint, which may come early, late or never.
    ///
    /// # Behavior
    /// - The library calls this once for a wait. It keeps the future during its pauses and polls it between its
    ///   requests. It calls again when the future has completed, when the claim has been queued since or is queued no
    ///   more, and when the future has been pending for as long as the library relies on it: 2 s over a remote store,
    ///   60 s over a store in this process. The waiter then asks the store in any case.
    /// - Setting a watch may take time. A change between the last answer and the first poll must count as a change, so
    ///   the backend reads the key once the watch is set.
    /// - A future that is dropped at any await point leaves no watch.
    fn changed(&self, _claim: &Claim) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Returns whether other claims want the key that `claim` holds, for a store that does not [tell a
    /// holder](super::Waiting::tells_holder). A process with its own waiters asks this after 10 ms of hand-offs, and
    /// continues with hand-offs meanwhile: if no other process waits, it keeps the key.
    ///
    /// # Behavior
    /// - Answers `true` if a claim waits that this process [cannot serve](crate::owner::Owner::may_hand_off_to) itself.
    ///   The news may be as old as the store's reads are: the process asks again.
    /// - Answers `true` if `claim` does not hold the key: the process then stops to hand it off.
    /// - A store that cannot say answers `true`, without I/O.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire). The library then assumes that others wait.
    ///
    /// # Cancel safety
    /// Changes nothing. The library drops the future when there is no answer within 100 ms.
    fn others_wait(&self, _claim: &Claim) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(true))
    }

    /// Closes connections and ends tasks. Under [`LeaseScope::Grant`] held claims are not touched. Under
    /// [`LeaseScope::Session`] the session ends, and with it all its grants.
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
