//! Keeps local copies of the queues of the keys for which this process waits.
//!
//! All waiters of a process for one key share one copy. One task watches the queue in the store and keeps the copy up
//! to date. This task processes each change once, and wakes only the waiters whose entries hold the key according to
//! the copy. So a release costs one message, however many claims wait.
//!
//! The copy shows the queue as it was at one revision of the store. New entries are added only at the end. So an entry
//! that holds the key in an outdated copy still holds the key in the store, as long as its lease has not expired.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::wait_queue::{self, WaitQueue};
use crate::backend::Mode;
use crate::sync::{Mutex, Notify};

/// How long a copy is kept up to date after its last use, because a process that contends for a key usually contends
/// for it again soon.
const LINGERS: Duration = Duration::from_secs(1);

/// An entry that has a name.
pub(crate) trait Entry: wait_queue::Entry {
    /// Returns the name of the entry, which is unique in its queue.
    fn name(&self) -> &[u8];
}

/// A queue as it was at one revision of the store.
#[derive(Clone, Debug)]
pub(crate) struct Seen<E> {
    pub(crate) queue: WaitQueue<E>,
    pub(crate) revision: i64,
}

/// The copies of one client, by key.
pub(crate) struct QueueCopies<E>(Mutex<HashMap<Vec<u8>, Weak<QueueCopy<E>>>>);

impl<E> Default for QueueCopies<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// The copy of one queue. Its users and the watching task own it.
pub(crate) struct QueueCopy<E> {
    state: Mutex<State<E>>,
    /// Notified after every change of the copy.
    changed: Notify,
}

struct State<E> {
    /// The queue; `None` while it is unknown, before the first answer and after a lost connection.
    seen: Option<Seen<E>>,
    /// The waiters, by the name of their entry, with the number of their calls: several calls may wait for one entry.
    waiting: HashMap<Vec<u8>, (usize, Arc<Notify>)>,
    users: usize,
    ended: bool,
}

/// One use of a copy. The copy is kept up to date while it is used.
pub(crate) struct CopyUse<E: Entry>(Arc<QueueCopy<E>>);

impl<E: Entry + Clone + Send + 'static> QueueCopies<E> {
    /// Returns the copy of the queue of `key`, if there is one.
    pub(crate) fn existing(&self, key: &[u8]) -> Option<CopyUse<E>> {
        let copy = self.0.lock().get(key)?.upgrade()?;
        CopyUse::begin(copy)
    }

    /// Returns the copy of the queue of `key`. If there is none, creates a copy, and calls `watch` to start the task
    /// that keeps the copy up to date.
    pub(crate) fn copy_of(&self, key: &[u8], watch: impl FnOnce(Arc<QueueCopy<E>>)) -> CopyUse<E> {
        let mut copies = self.0.lock();
        if let Some(copy) = copies.get(key).and_then(Weak::upgrade)
            && let Some(used) = CopyUse::begin(copy)
        {
            return used;
        }
        copies.retain(|_, copy| copy.strong_count() > 0);
        let state = State { seen: None, waiting: HashMap::new(), users: 1, ended: false };
        let copy = Arc::new(QueueCopy { state: Mutex::new(state), changed: Notify::new() });
        copies.insert(key.to_vec(), Arc::downgrade(&copy));
        drop(copies);
        watch(Arc::clone(&copy));
        CopyUse(copy)
    }
}

impl<E: Entry> CopyUse<E> {
    fn begin(copy: Arc<QueueCopy<E>>) -> Option<Self> {
        let mut state = copy.state.lock();
        if state.ended {
            return None;
        }
        state.users += 1;
        drop(state);
        Some(Self(copy))
    }

    /// Runs `look` on the queue. Returns `None` while the queue is unknown.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Seen<E>) -> T) -> Option<T> {
        self.0.state.lock().seen.as_ref().map(look)
    }

    /// Waits until the queue is known, for at most `limit`. Returns `false` if the queue is no longer watched, or if
    /// the store has not reported it in time.
    pub(crate) async fn is_known(&self, limit: Duration) -> bool {
        let known = self.until(|state| state.seen.is_some());
        tokio::time::timeout(limit, known).await.unwrap_or(false)
    }

    /// Completes when a new entry of `mode` would hold the key at once, or conflicts with the holders.
    pub(crate) async fn admits(&self, mode: Mode) {
        let decided = |seen: &Seen<E>| seen.queue.admits(mode) || seen.queue.clash(mode).is_some();
        self.until(|state| state.seen.as_ref().is_some_and(decided)).await;
    }

    async fn until(&self, condition: impl Fn(&State<E>) -> bool) -> bool {
        let check = || {
            let state = self.0.state.lock();
            if state.ended { Some(false) } else { condition(&state).then_some(true) }
        };
        self.0.changed.until(check).await
    }

    /// Completes when the entry `name`, which was created at the revision `created`, holds the key or was deleted. Also
    /// completes when the queue is no longer watched.
    pub(crate) async fn served(&self, name: &[u8], created: i64) {
        let waiter = Waiter::register(&self.0, name);
        waiter.notify.until(|| (!self.0.state.lock().waits(name, created)).then_some(())).await;
    }
}

impl<E: Entry> Drop for CopyUse<E> {
    fn drop(&mut self) {
        self.0.state.lock().users -= 1;
    }
}

impl<E: Entry> State<E> {
    fn waits(&self, name: &[u8], created: i64) -> bool {
        let Some(seen) = &self.seen else { return !self.ended };
        // Until the copy shows the creation of the entry, the name may belong to an earlier entry.
        if seen.revision < created {
            return !self.ended;
        }
        let place = seen.queue.place(|entry| entry.name() == name);
        !self.ended && place.is_some_and(|place| !seen.queue.holds(place))
    }

    /// Returns the waiters whose entries hold the key.
    fn served(&self) -> Vec<Arc<Notify>> {
        let Some(seen) = &self.seen else { return Vec::new() };
        let holders = seen.queue.holders().iter();
        holders.filter_map(|holder| Some(Arc::clone(&self.waiting.get(holder.name())?.1))).collect()
    }
}

impl<E: Entry> QueueCopy<E> {
    /// Replaces the copy by the queue that was read. If the copy is newer than the read, keeps the copy and returns its
    /// revision. An older queue may lack the entry that holds the key, and the key would be granted a second time.
    pub(crate) fn read(&self, seen: Seen<E>) -> Option<i64> {
        let mut newer = None;
        self.change(|state| {
            newer = state
                .seen
                .as_ref()
                .map(|present| present.revision)
                .filter(|present| *present > seen.revision);
            if newer.is_some() {
                return Vec::new();
            }
            let there: std::collections::HashSet<&[u8]> =
                seen.queue.entries().iter().map(Entry::name).collect();
            let gone = state.waiting.iter().filter(|(name, _)| !there.contains(&name[..]));
            let gone = gone.map(|(_, (_, notify))| Arc::clone(notify)).collect();
            drop(there);
            state.seen = Some(seen);
            gone
        });
        newer
    }

    /// Changes the copy, if the queue is known. `change` returns the names of the deleted entries.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Seen<E>) -> Vec<Vec<u8>>) {
        self.change(|state| {
            let gone = state.seen.as_mut().map(change).unwrap_or_default();
            gone.iter().filter_map(|name| Some(Arc::clone(&state.waiting.get(name)?.1))).collect()
        });
    }

    /// Marks the queue as unknown, because changes may have been missed.
    pub(crate) fn lost(&self) {
        self.state.lock().seen = None;
    }

    /// Changes the state, and notifies the waiters whose entries hold the key and the waiters that `change` returns.
    fn change(&self, change: impl FnOnce(&mut State<E>) -> Vec<Arc<Notify>>) {
        let notified = self.state.with(|state| {
            let mut notified = change(state);
            notified.extend(state.served());
            notified
        });
        notified.iter().for_each(|waiter| waiter.notify_waiters());
        self.changed.notify_waiters();
    }

    /// Returns the names of the entries with waiters.
    pub(crate) fn waiting(&self) -> Vec<Vec<u8>> {
        self.state.lock().waiting.keys().cloned().collect()
    }

    /// Runs `watch` as long as the copy is used, and a moment longer. The waiters are notified of the end, even if
    /// `watch` never started.
    pub(crate) fn keep(self: Arc<Self>, watch: impl Future<Output = ()>) -> impl Future<Output = ()> {
        let ends = Ends(Arc::clone(&self));
        async move {
            let unused = async {
                let mut unused = 0;
                while unused < 2 {
                    tokio::time::sleep(LINGERS / 2).await;
                    unused = if self.state.lock().users == 0 { unused + 1 } else { 0 };
                }
            };
            tokio::select! {
                () = watch => {}
                () = unused => {}
            }
            drop(ends);
        }
    }
}

/// When this value is dropped, records that the watching task has ended, and notifies all waiters.
struct Ends<E: Entry>(Arc<QueueCopy<E>>);

impl<E: Entry> Drop for Ends<E> {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.ended = true;
            state.waiting.values().map(|(_, notify)| Arc::clone(notify)).collect()
        });
    }
}

/// A call that waits until one entry holds the key.
struct Waiter<'a, E: Entry> {
    copy: &'a QueueCopy<E>,
    name: &'a [u8],
    notify: Arc<Notify>,
}

impl<'a, E: Entry> Waiter<'a, E> {
    fn register(copy: &'a QueueCopy<E>, name: &'a [u8]) -> Self {
        let mut state = copy.state.lock();
        let (count, notify) =
            state.waiting.entry(name.to_vec()).or_insert_with(|| (0, Arc::new(Notify::new())));
        *count += 1;
        let notify = Arc::clone(notify);
        drop(state);
        Self { copy, name, notify }
    }
}

impl<E: Entry> Drop for Waiter<'_, E> {
    fn drop(&mut self) {
        let mut state = self.copy.state.lock();
        if let Some((count, _)) = state.waiting.get_mut(self.name) {
            *count -= 1;
            if *count == 0 {
                state.waiting.remove(self.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug)]
    struct Named(&'static [u8]);

    impl Entry for Named {
        fn name(&self) -> &[u8] {
            self.0
        }
    }

    impl wait_queue::Entry for Named {
        fn mode(&self) -> Mode {
            Mode::Exclusive
        }
    }

    fn seen(revision: i64, names: &[&'static [u8]]) -> Seen<Named> {
        Seen { queue: WaitQueue::new(names.iter().map(|name| Named(name)).collect()), revision }
    }

    fn names(copy: &CopyUse<Named>) -> Option<Vec<&'static [u8]>> {
        copy.look(|seen| seen.queue.entries().iter().map(|entry| entry.0).collect())
    }

    fn copy() -> CopyUse<Named> {
        QueueCopies(Mutex::default()).copy_of(b"k", drop)
    }

    #[test]
    fn a_read_that_is_answered_late_takes_nothing_back() {
        let copy = copy();
        copy.0.read(seen(100, &[b"holder"]));
        copy.0.update(|line| {
            *line = seen(101, &[b"holder", b"other"]);
            Vec::new()
        });
        assert_eq!(copy.0.read(seen(100, &[b"holder"])), Some(101), "it is not taken");
        assert_eq!(names(&copy), Some(vec![&b"holder"[..], b"other"]), "the entry of 101 is lost");
        copy.0.read(seen(102, &[b"other"]));
        assert_eq!(names(&copy), Some(vec![&b"other"[..]]));
        copy.0.lost();
        copy.0.read(seen(90, &[b"restored"]));
        assert_eq!(names(&copy), Some(vec![&b"restored"[..]]), "after a gap any read counts");
    }

    #[test]
    fn a_name_that_is_used_again_waits_for_its_own_creation() {
        let copy = copy();
        copy.0.read(seen(50, &[b"ab"]));
        let waits = |created| copy.0.state.lock().waits(b"ab", created);
        assert!(waits(61), "the copy shows the entry that had the name before");
        assert!(!waits(50), "it holds");
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_without_reports_is_not_waited_for() {
        let copy = copy();
        assert!(!copy.is_known(Duration::from_millis(500)).await);
        copy.0.read(seen(1, &[]));
        assert!(copy.is_known(Duration::from_millis(500)).await);
    }
}
