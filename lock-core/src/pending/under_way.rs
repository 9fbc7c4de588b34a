//! Releases that nobody waits for, and the next acquisition of their keys by this process.
//!
//! A dropped guard, a dropped acquisition and a body with [`Release::Background`](crate::Release::Background) end before
//! their release is answered. The next acquisition of the key must not be refused because of that release, or a caller
//! without patience would fail on the lock that its own process gives back. Two rules see to that:
//!
//! 1. **Behind or after it.** The acquisition asks the store at once where the release is ahead of it on the same way
//!    ([`Progress::Ahead`], which the store says by [`Claim::mark_release_ahead`]). Otherwise it first waits for the
//!    answer. So it does on another runtime, which has a connection of its own.
//! 2. **A refusal counts only if the release was ahead to the end.** A connection may be lost, a server may forget a
//!    script, or a release may take a second statement, and then it arrives behind the question. So a question that was refused while a release
//!    was under way waits for the answer to that release. Unless it was ahead all the time, the question is asked
//!    again.
//!
//! Nobody is kept for longer than [`PATIENCE`] after the release began: the same time for which the caller of a body
//! waits for its release by default.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Id;

use crate::backend::{Claim, MoreKeys};
use crate::clock::Moment;
use crate::key::{Key, KeyMap};
use crate::sync::{Mutex, MutexGuard, Notify};

/// For how long a release keeps the next acquisition of its key waiting, from its beginning.
const PATIENCE: Duration = Duration::from_secs(1);

const SHARDS: usize = 16;

/// How far a release has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It is sent, or will be, and may arrive at any time.
    Anywhere,
    /// What this runtime sends from now on arrives behind it.
    Ahead(Id),
    /// The store has answered, and until then it was ahead.
    ArrivedAhead,
    /// The store has answered, or it was given up.
    Over,
}

/// What a refusal means to a question that was asked behind a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Somebody else has the key.
    Stands,
    /// The store may have refused because of the release.
    AskAgain,
    /// That depends on the answer to the release.
    Open,
}

impl Progress {
    /// Returns whether a question that `runtime` sends now arrives after the release.
    fn lets_ask(self, runtime: Id) -> bool {
        match self {
            Self::Anywhere => false,
            Self::Ahead(of) => of == runtime,
            Self::ArrivedAhead | Self::Over => true,
        }
    }

    fn refusal(self) -> Refusal {
        match self {
            Self::ArrivedAhead => Refusal::Stands,
            Self::Over => Refusal::AskAgain,
            Self::Anywhere | Self::Ahead(_) => Refusal::Open,
        }
    }

    fn is_over(self) -> bool {
        matches!(self, Self::ArrivedAhead | Self::Over)
    }
}

/// A release under way, as the acquisitions behind it see it.
#[derive(Debug)]
pub(crate) struct Earlier {
    key: Key,
    more: MoreKeys,
    progress: Mutex<Progress>,
    changed: Notify,
    /// From here on it keeps nobody waiting.
    until: Moment,
}

impl Earlier {
    /// Returns whether a question that `runtime` sends now arrives after the release.
    pub(crate) fn lets_ask(&self, runtime: Id) -> bool {
        self.progress.lock().lets_ask(runtime)
    }

    /// Returns whether the release was answered, or given up.
    pub(crate) fn is_over(&self) -> bool {
        self.progress.lock().is_over()
    }

    /// Returns what a refusal means to a question that was asked before the release was over.
    pub(crate) fn refusal(&self) -> Refusal {
        self.progress.lock().refusal()
    }

    /// Returns until when it may keep somebody waiting.
    pub(crate) fn until(&self) -> Moment {
        self.until
    }

    /// Completes when the release is over. Cancel safe.
    pub(crate) async fn over(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.is_over() {
                return;
            }
            changed.await;
        }
    }

    fn set(&self, progress: Progress) {
        let mut now = self.progress.lock();
        // The first end counts.
        if !now.is_over() {
            *now = progress;
        }
        drop(now);
        self.changed.notify_waiters();
    }
}

/// The releases of one manager that are under way, by key.
#[derive(Debug)]
pub(crate) struct ReleasesUnderWay {
    shards: [Mutex<KeyMap<Vec<Arc<Earlier>>>>; SHARDS],
    /// The number of keys in all shards: while it is zero, an acquisition needs no look-up.
    keys: AtomicUsize,
}

impl Default for ReleasesUnderWay {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), keys: AtomicUsize::new(0) }
    }
}

impl ReleasesUnderWay {
    /// Adds the release of `claim`, which begins at `now`.
    pub(crate) fn add(self: &Arc<Self>, claim: &Claim, now: Moment) -> ReleaseUnderWay {
        let release = Arc::new(Earlier {
            key: claim.key.clone(),
            more: claim.more.clone(),
            progress: Mutex::new(Progress::Anywhere),
            changed: Notify::new(),
            until: now.plus(PATIENCE),
        });
        for key in claim.keys() {
            let mut shard = self.shard(key);
            let releases = shard.entry(key.clone()).or_default();
            if releases.is_empty() {
                self.keys.fetch_add(1, Ordering::AcqRel);
            }
            releases.push(Arc::clone(&release));
        }
        ReleaseUnderWay { all: Arc::clone(self), release }
    }

    /// Returns the releases of `keys`.
    pub(crate) fn of<'a>(&self, keys: impl Iterator<Item = &'a Key>) -> Vec<Arc<Earlier>> {
        if self.keys.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        for key in keys {
            found.extend(self.shard(key).get(key).into_iter().flatten().cloned());
        }
        found
    }

    fn remove(&self, key: &Key, release: &Arc<Earlier>) {
        let mut shard = self.shard(key);
        let Some(releases) = shard.get_mut(key) else { return };
        releases.retain(|other| !Arc::ptr_eq(other, release));
        if releases.is_empty() {
            shard.remove(key);
            self.keys.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, KeyMap<Vec<Arc<Earlier>>>> {
        self.shards[key.shard(SHARDS)].lock()
    }
}

/// A release under way. Whoever has this value sees to the release; dropping it says that the release is over.
#[derive(Debug)]
pub(crate) struct ReleaseUnderWay {
    all: Arc<ReleasesUnderWay>,
    release: Arc<Earlier>,
}

impl ReleaseUnderWay {
    /// Notes that what `runtime` sends from now on arrives behind the release.
    pub(crate) fn is_ahead_of(&self, runtime: Id) {
        self.release.set(Progress::Ahead(runtime));
    }

    /// Notes that the release will be sent again.
    pub(crate) fn starts_over(&self) {
        self.release.set(Progress::Anywhere);
    }

    /// Notes the store's answer. `ahead`: it was sent once, ahead of what followed.
    pub(crate) fn answered(self, ahead: bool) {
        if ahead {
            self.release.set(Progress::ArrivedAhead);
        }
    }
}

impl Drop for ReleaseUnderWay {
    fn drop(&mut self) {
        let Earlier { key, more, .. } = &*self.release;
        std::iter::once(key).chain(more.iter()).for_each(|key| self.all.remove(key, &self.release));
        self.release.set(Progress::Over);
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
    async fn who_may_ask_and_what_a_refusal_means() {
        let here = tokio::runtime::Handle::current().id();
        let other = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let there = other.handle().id();
        // Who is ahead, whether this runtime may ask, and what its refusal means.
        for (progress, may_ask, refusal) in [
            (Progress::Anywhere, false, Refusal::Open),
            (Progress::Ahead(here), true, Refusal::Open),
            (Progress::Ahead(there), false, Refusal::Open),
            (Progress::ArrivedAhead, true, Refusal::Stands),
            (Progress::Over, true, Refusal::AskAgain),
        ] {
            assert_eq!((progress.lets_ask(here), progress.refusal()), (may_ask, refusal), "{progress:?}");
        }
        other.shutdown_background();
    }

    #[test]
    fn a_release_is_there_for_each_of_its_keys_until_it_is_over() {
        let (all, now) = (Arc::<ReleasesUnderWay>::default(), Clock::Suspend.now());
        let both = claim(["a", "b"]);
        let of = |key: &str| all.of([&Key::new(key).expect("a key")].into_iter()).len();
        let (one, two) = (all.add(&both, now), all.add(&both, now));
        assert_eq!([of("a"), of("b"), of("c")], [2, 2, 0]);
        drop(one);
        assert_eq!([of("a"), of("b")], [1, 1]);
        two.answered(true);
        assert_eq!(all.keys.load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_first_end_counts() {
        let (all, now) = (Arc::<ReleasesUnderWay>::default(), Clock::Suspend.now());
        for (ahead, expected) in [(true, Refusal::Stands), (false, Refusal::AskAgain)] {
            let release = all.add(&claim(["a", "b"]), now);
            let earlier = Arc::clone(&release.release);
            release.answered(ahead);
            assert_eq!(earlier.refusal(), expected);
        }
        let release = all.add(&claim(["a", "b"]), now);
        let earlier = Arc::clone(&release.release);
        release.starts_over();
        assert_eq!(earlier.refusal(), Refusal::Open);
        drop(release);
        assert_eq!(earlier.refusal(), Refusal::AskAgain);
    }
}
