//! The grant that an earlier run of the same named owner has left behind.
//!
//! A request with an [owner name](crate::LockRequest::owner) that finds the key held by a grant of that name looks
//! whether the process of that grant is certainly dead. Then it takes that grant away, by its id, as an operator would:
//! the store compares and deletes, so a grant that came later is not touched, and serves the next in line. There is no
//! other protocol. Death is for ever, so nothing can change between the look and the deletion.

use super::event::Wake;
use super::plan::Plan;
use super::recorder::{name, shares_owner, store_fails};
use super::run::Acquire;
use super::state::Waiting;
use crate::backend::{Ask, Held};
use crate::error::Result;
use crate::observe::LockEvent;
use crate::owner::{Liveness, OwnerRecord};

impl Acquire<'_> {
    /// Frees the key where its holder is an earlier run of the same named owner, which is dead. Returns what to do next
    /// if the key was freed.
    pub(super) async fn frees_orphan(&mut self) -> Option<Wake> {
        let holder = namesake(self.plan, &self.held)?;
        let found = holder.liveness();
        if found != Liveness::Dead {
            if !std::mem::replace(&mut self.told_of_namesake, true) {
                shares_owner(self.plan, holder, found == Liveness::Alive);
            }
            return None;
        }
        let taken_away = self.take_away(holder).await;
        if let Ok(true) = taken_away {
            // The next question belongs to the same try: one that finds somebody else there has tried once.
            self.attempts = self.attempts.saturating_sub(1);
        }
        match taken_away {
            Ok(true) if self.waiting() == Waiting::Nowhere => Some(Wake::Ask(Ask::Try)),
            Ok(true) => Some(Wake::Ask(self.question())),
            Ok(false) => None,
            // It is waited for as if it were alive, and the next answer of the store leads here again.
            Err(error) => {
                store_fails(self.plan, &error);
                None
            }
        }
    }

    /// Takes the grant of a dead process away. Returns whether it was still there.
    async fn take_away(&self, dead: &OwnerRecord) -> Result<bool> {
        let (store, key) = (&self.engine.store, &self.plan.key);
        let holders = store.inspect(key).await?.map(|found| found.holders).unwrap_or_default();
        // A key that is kept was released, and its owner has asked for that.
        let orphan = holders.into_iter().find(|holder| !holder.kept && holder.record.as_ref() == Some(dead));
        let Some(orphan) = orphan else { return Ok(false) };
        // Compared and deleted by the id of this very grant.
        if !store.force_release(key, &orphan.id).await? {
            return Ok(false);
        }
        let (observer, template) = (&self.engine.observer, self.plan.template.as_deref());
        observer.events.emit(|| LockEvent::TakenOver { lock: name(self.plan), from: dead.clone() });
        let key = observer.redact_key(key, template);
        tracing::warn!(lock.template = template, lock.key = %key, from = %dead,
            "the lock of a dead process of the same owner name was freed");
        Ok(true)
    }
}

/// Returns the holder if it has the owner name of the request.
fn namesake<'a>(plan: &Plan, held: &'a Held) -> Option<&'a OwnerRecord> {
    let own = plan.owner.as_deref()?;
    held.holder.as_ref().filter(|holder| holder.owner_name() == Some(own))
}
