//! Tracks the releases that the store has not answered yet.
//!
//! The next acquisition of a key by this process waits for the answer before it sends its first request. Otherwise a
//! request that does not wait could fail because of a lock that this process is just releasing. The release may be
//! under way on another connection, or may be repeated after a failure.
//!
//! A release delays acquisitions until at most [`PATIENCE`] after its start. By default, a caller whose body has ended
//! waits for the release equally long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::{Claim, MoreKeys};
use crate::clock::Moment;
use crate::key::{Key, KeyMap};
use crate::sync::{Mutex, MutexGuard, Notify};

/// How long a release delays the next acquisition of its key, counted from the start of the release.
const PATIENCE: Duration = Duration::from_secs(1);

const SHARDS: usize = 16;

/// An unanswered release, for which an acquisition of the same key waits.
#[derive(Debug)]
pub(crate) struct Unanswered {
    key: Key,
    more: MoreKeys,
    over: AtomicBool,
    changed: Notify,
    /// The number of releases that began before this one.
    number: u64,
    /// The time until which this release may delay an acquisition.
    pub(crate) until: Moment,
}

impl Unanswered {
    /// Completes when the store has answered the release, or the release was given up. This method is cancel safe.
    pub(crate) async fn over(&self) {
        self.changed.until(|| self.over.load(Ordering::Acquire).then_some(())).await;
    }
}

/// The unanswered releases of one manager, by key.
#[derive(Debug)]
pub(crate) struct ReleasesUnderWay {
    shards: [Mutex<KeyMap<Vec<Arc<Unanswered>>>>; SHARDS],
    /// The number of keys in all shards. While it is zero, an acquisition needs no lookup.
    keys: AtomicUsize,
    begun: AtomicU64,
}

impl Default for ReleasesUnderWay {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            keys: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
        }
    }
}

impl ReleasesUnderWay {
    /// Adds the release of `claim`, which starts at `now`.
    pub(crate) fn add(self: &Arc<Self>, claim: &Claim, now: Moment) -> ReleaseUnderWay {
        let release = Arc::new(Unanswered {
            key: claim.key.clone(),
            more: claim.more.clone(),
            over: AtomicBool::new(false),
            changed: Notify::new(),
            number: self.begun.fetch_add(1, Ordering::AcqRel),
            until: now.plus(PATIENCE),
        });
        for key in claim.keys() {
            let mut shard = self.shard(key);
            // Most keys have only one release at a time, so the list begins with room for one.
            let releases = shard.entry(key.clone()).or_insert_with(|| Vec::with_capacity(1));
            if releases.is_empty() {
                self.keys.fetch_add(1, Ordering::AcqRel);
            }
            releases.push(Arc::clone(&release));
        }
        ReleaseUnderWay { all: Arc::clone(self), release }
    }

    /// Returns the number of releases that have begun. Each later release gets this number or a larger one.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Returns the first release of `key` that may delay an acquisition: its number is below `before`, and its `until`
    /// is after the time that `now` returns.
    pub(crate) fn first(
        &self,
        key: &Key,
        before: u64,
        now: impl FnOnce() -> Moment,
    ) -> Option<Arc<Unanswered>> {
        if self.keys.load(Ordering::Acquire) == 0 {
            return None;
        }
        let shard = self.shard(key);
        let (releases, now) = (shard.get(key)?, now());
        releases.iter().find(|release| !release.until.is_past(now) && release.number < before).cloned()
    }

    fn remove(&self, key: &Key, release: &Arc<Unanswered>) {
        let mut shard = self.shard(key);
        let Some(releases) = shard.get_mut(key) else { return };
        releases.retain(|other| !Arc::ptr_eq(other, release));
        if releases.is_empty() {
            shard.remove(key);
            self.keys.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, KeyMap<Vec<Arc<Unanswered>>>> {
        self.shards[key.shard(SHARDS)].lock()
    }
}

/// A release that is under way. The code that completes the release owns this value, and drops it when the release is
/// answered or given up.
#[derive(Debug)]
pub(crate) struct ReleaseUnderWay {
    all: Arc<ReleasesUnderWay>,
    release: Arc<Unanswered>,
}

impl Drop for ReleaseUnderWay {
    fn drop(&mut self) {
        let Unanswered { key, more, .. } = &*self.release;
        std::iter::once(key).chain(more.iter()).for_each(|key| self.all.remove(key, &self.release));
        self.release.over.store(true, Ordering::Release);
        self.release.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::owner::{Identity, OwnerRecord, OwnerSource};

    fn claim(keys: [&str; 2]) -> Claim {
        let [key, more] = keys.map(|key| Key::new(key).expect("a key"));
        let owner = OwnerSource::new().expect("random bytes").mint();
        let record = OwnerRecord::new(Arc::new(Identity::of_this_process("test")), None);
        Claim { more: [more].into(), ..Claim::new(key, owner, Duration::from_secs(10), record) }
    }

    #[tokio::test]
    async fn a_release_is_there_for_each_of_its_keys_until_it_is_over() {
        let (all, now) = (Arc::<ReleasesUnderWay>::default(), Clock::Suspend.now());
        let first = |key: &str| all.first(&Key::new(key).expect("a key"), all.begun(), || now);
        let one = all.add(&claim(["a", "b"]), now);
        let two = all.add(&claim(["b", "c"]), now);
        let waited_for = first("b").expect("the first of the two");
        assert!(first("a").is_some() && first("c").is_some() && first("d").is_none());
        assert!(!waited_for.over.load(Ordering::Acquire));
        drop(one);
        waited_for.over().await;
        assert!(first("a").is_none() && first("b").is_some());
        drop(two);
        assert_eq!(all.keys.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_release_keeps_others_waiting_for_a_second() {
        let (all, now) = (Arc::<ReleasesUnderWay>::default(), Clock::Suspend.now());
        let key = Key::new("a").expect("a key");
        let _release = all.add(&claim(["a", "b"]), now);
        assert!(all.first(&key, all.begun(), || now.plus(PATIENCE / 2)).is_some());
        assert!(all.first(&key, all.begun(), || now.plus(PATIENCE * 2)).is_none());
        let (begun, key) = (all.begun(), Key::new("c").expect("a key"));
        let _later = all.add(&claim(["c", "d"]), now);
        assert!(all.first(&key, begun, || now).is_none(), "it began after the acquisition");
    }
}
