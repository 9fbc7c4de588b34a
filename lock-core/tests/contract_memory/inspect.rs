//! Broken lists, and forced releases that remove the wrong grants.

use lock_core::backend::Backend;
use lock_core::backend::memory::Memory;
use lock_core::key::Key;
use lock_core::{GrantId, HolderInfo, Listed, LockInfo, Result};

use super::Fault;

pub(super) async fn list(
    fault: Fault,
    inner: &Memory,
    prefix: &str,
    foreign: bool,
    limit: usize,
) -> Result<Listed> {
    let prefix = if fault == Fault::IgnoresPrefix { "" } else { prefix };
    let limit = if fault == Fault::IgnoresLimit { usize::MAX } else { limit };
    let mut listed = inner.list(prefix, foreign, limit).await?;
    for lock in &mut listed.locks {
        match fault {
            Fault::ListsOneHolder => lock.holders.truncate(1),
            Fault::WaitersBackwards => lock.waiters.reverse(),
            Fault::HeldSinceAsked => lock.holders.iter_mut().for_each(asked),
            Fault::HidesKept => lock.holders.iter_mut().for_each(|holder| holder.kept = false),
            _ => {}
        }
    }
    Ok(if fault == Fault::ListsNobody { Listed::default() } else { listed })
}

fn asked(holder: &mut HolderInfo) {
    holder.held_since = holder.record.as_ref().map(lock_core::owner::OwnerRecord::since_epoch);
}

pub(super) async fn inspect(fault: Fault, inner: &Memory, key: &Key) -> Result<Option<LockInfo>> {
    match fault {
        Fault::InspectsByPrefix => Ok(inner.list(key.as_str(), true, 1).await?.locks.pop()),
        _ => inner.inspect(key).await,
    }
}

pub(super) async fn force_release(fault: Fault, inner: &Memory, key: &Key, id: &GrantId) -> Result<bool> {
    match fault {
        Fault::EvictDoesNothing => Ok(true),
        Fault::EvictsAnybody => {
            let locks = inner.list(key.as_str(), false, 1).await?.locks;
            match locks.first().and_then(|lock| lock.holders.first()) {
                Some(holder) => inner.force_release(key, &holder.id).await,
                None => Ok(false),
            }
        }
        _ => inner.force_release(key, id).await,
    }
}
