//! Tracks the releases that the store has not answered yet.
//!
//! The next acquisition of a key by this process waits for the answer before it sends its first request. Otherwise a
//! request that does not wait could fail because of a lock that this process is just releasing. The release may be
//! under way on another connection, or may be repeated after a failure.
//!
//! A release delays acquisitions until at most [`PATIENCE`] after its start. By default, a caller whose body has ended
//! waits for the release equally long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::backend::{Claim, MoreKeys};
use crate::clock::Moment;
use crate::key::Key;
use crate::sync::{Mutex, Notify};

/// How long a release delays the next acquisition of its key, counted from the start of the release.
const PATIENCE: Duration = Duration::from_secs(1);

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

/// The unanswered releases of one manager, by key and number.
#[derive(Debug, Default)]
pub(crate) struct ReleasesUnderWay {
    all: Mutex<BTreeMap<(Key, u64), Arc<Unanswered>>>,
    begun: AtomicU64,
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
        self.all.with(|all| {
            all.extend(claim.keys().map(|key| ((key.clone(), release.number), Arc::clone(&release))));
        });
        ReleaseUnderWay { all: Arc::clone(self), release }
    }

    /// Returns the number of releases that have begun. Each later release gets this number or a larger one.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Returns the first release of `key` that may delay an acquisition: its number is below `before`, and its `until`
    /// is after `now`.
    pub(crate) fn first(&self, key: &Key, before: u64, now: Moment) -> Option<Arc<Unanswered>> {
        let all = self.all.lock();
        let mut releases = all.range((key.clone(), 0)..(key.clone(), before));
        releases.find(|(_, release)| !release.until.is_past(now)).map(|(_, release)| Arc::clone(release))
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
        let Unanswered { key, more, number, .. } = &*self.release;
        self.all.all.with(|all| {
            std::iter::once(key).chain(more.iter()).for_each(|key| drop(all.remove(&(key.clone(), *number))));
        });
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
        let first = |key: &str| all.first(&Key::new(key).expect("a key"), all.begun(), now);
        let one = all.add(&claim(["a", "b"]), now);
        let two = all.add(&claim(["b", "c"]), now);
        let waited_for = first("b").expect("the first of the two");
        assert!(first("a").is_some() && first("c").is_some() && first("d").is_none());
        assert!(!waited_for.over.load(Ordering::Acquire));
        drop(one);
        waited_for.over().await;
        assert!(first("a").is_none() && first("b").is_some());
        drop(two);
        assert!(all.all.lock().is_empty());
    }

    #[test]
    fn a_release_keeps_others_waiting_for_a_second() {
        let (all, now) = (Arc::<ReleasesUnderWay>::default(), Clock::Suspend.now());
        let key = Key::new("a").expect("a key");
        let _release = all.add(&claim(["a", "b"]), now);
        assert!(all.first(&key, all.begun(), now.plus(PATIENCE / 2)).is_some());
        assert!(all.first(&key, all.begun(), now.plus(PATIENCE * 2)).is_none());
        let (begun, key) = (all.begun(), Key::new("c").expect("a key"));
        let _later = all.add(&claim(["c", "d"]), now);
        assert!(all.first(&key, begun, now).is_none(), "it began after the acquisition");
    }
}
