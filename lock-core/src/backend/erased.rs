//! The object-safe form of [`Backend`]. Only this module boxes the futures of a backend.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
use std::time::Duration;

use tokio::runtime::Handle;

use super::{
    Ask, Attempt, Backend, Capability, Claim, FencingToken, Finding, GrantId, Heartbeat, LatchState,
    LatchStep, LeaseCheck, Listed, Listener, LockInfo, Ping, Released, Renew, Renewal,
};
use crate::error::Result;
use crate::key::Key;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Backend`] as a trait object. Every backend implements this trait. On concrete types, call the methods of
/// [`Backend`].
pub trait DynBackend: Send + Sync + fmt::Debug + 'static {
    /// See [`Backend::capability`].
    fn capability_dyn(&self) -> Capability;
    /// See [`Backend::acquire`].
    fn acquire_dyn<'a>(&'a self, claim: &'a Claim, ask: Ask) -> BoxFuture<'a, Result<Attempt>>;
    /// See [`Backend::heartbeat`].
    fn heartbeat_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Heartbeat>>;
    /// See [`Backend::downgrade`].
    fn downgrade_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Renewal>;
    /// See [`Backend::latch`].
    fn latch_dyn<'a>(&'a self, key: &'a Key, step: &'a LatchStep) -> BoxFuture<'a, Result<LatchState>>;
    /// See [`Backend::list`].
    fn list_dyn<'a>(&'a self, prefix: &'a str, foreign: bool, limit: usize) -> BoxFuture<'a, Result<Listed>>;
    /// See [`Backend::inspect`].
    fn inspect_dyn<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<LockInfo>>>;
    /// See [`Backend::force_release`].
    fn force_release_dyn<'a>(&'a self, key: &'a Key, id: &'a GrantId) -> BoxFuture<'a, Result<bool>>;
    /// See [`Backend::ping`].
    fn ping_dyn(&self) -> BoxFuture<'_, Result<Ping>>;
    /// See [`Backend::doctor`].
    fn doctor_dyn(&self) -> BoxFuture<'_, Result<Vec<Finding>>>;
    /// See [`Backend::lease_check`].
    fn lease_check_dyn(&self, claim: &Claim) -> Option<LeaseCheck>;
    /// See [`Backend::attach`].
    fn attach_dyn(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>);
    /// See [`Backend::renew`].
    fn renew_dyn<'a>(&'a self, batch: &'a [Renew<'a>]) -> BoxFuture<'a, Vec<Renewal>>;
    /// See [`Backend::shard_of`].
    fn shard_of_dyn(&self, claim: &Claim) -> u64;
    /// See [`Backend::release`].
    fn release_dyn<'a>(&'a self, claim: &'a Claim, keep: Option<Duration>)
    -> BoxFuture<'a, Result<Released>>;
    /// See [`Backend::fence`].
    fn fence_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<FencingToken>>;
    /// See [`Backend::changed`].
    fn changed_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, ()>;
    /// See [`Backend::others_wait`].
    fn others_wait_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool>>;
    /// See [`Backend::close`].
    fn close_dyn(&self) -> BoxFuture<'_, ()>;
}

impl<B: Backend> DynBackend for B {
    fn capability_dyn(&self) -> Capability {
        self.capability()
    }

    fn acquire_dyn<'a>(&'a self, claim: &'a Claim, ask: Ask) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire(claim, ask))
    }

    fn heartbeat_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Heartbeat>> {
        Box::pin(self.heartbeat(claim))
    }

    fn downgrade_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Renewal> {
        Box::pin(self.downgrade(claim))
    }

    fn latch_dyn<'a>(&'a self, key: &'a Key, step: &'a LatchStep) -> BoxFuture<'a, Result<LatchState>> {
        Box::pin(self.latch(key, step))
    }

    fn list_dyn<'a>(&'a self, prefix: &'a str, foreign: bool, limit: usize) -> BoxFuture<'a, Result<Listed>> {
        Box::pin(self.list(prefix, foreign, limit))
    }

    fn inspect_dyn<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<LockInfo>>> {
        Box::pin(self.inspect(key))
    }

    fn force_release_dyn<'a>(&'a self, key: &'a Key, id: &'a GrantId) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.force_release(key, id))
    }

    fn ping_dyn(&self) -> BoxFuture<'_, Result<Ping>> {
        Box::pin(self.ping())
    }

    fn doctor_dyn(&self) -> BoxFuture<'_, Result<Vec<Finding>>> {
        Box::pin(self.doctor())
    }

    fn lease_check_dyn(&self, claim: &Claim) -> Option<LeaseCheck> {
        self.lease_check(claim)
    }

    fn attach_dyn(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        self.attach(process, listener, background);
    }

    fn renew_dyn<'a>(&'a self, batch: &'a [Renew<'a>]) -> BoxFuture<'a, Vec<Renewal>> {
        Box::pin(self.renew(batch))
    }

    fn shard_of_dyn(&self, claim: &Claim) -> u64 {
        self.shard_of(claim)
    }

    fn release_dyn<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Option<Duration>,
    ) -> BoxFuture<'a, Result<Released>> {
        Box::pin(self.release(claim, keep))
    }

    fn fence_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<FencingToken>> {
        Box::pin(self.fence(claim))
    }

    fn changed_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, ()> {
        Box::pin(self.changed(claim))
    }

    fn others_wait_dyn<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.others_wait(claim))
    }

    fn close_dyn(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.close())
    }
}
