//! Calls code of the application: its log, its metrics, its wakers, and the drop of its values.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::futures::Notified;
use tokio::sync::watch;

/// Counts a lock as held by this thread while this value lives. Without debug assertions, this type does nothing.
#[derive(Debug)]
pub(crate) struct Locked(());

#[cfg(debug_assertions)]
mod count {
    use std::cell::Cell;

    thread_local! {
        static LOCKS: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn add(change: i32) {
        // When a thread ends, its count may already be destroyed.
        let _ = LOCKS.try_with(|locks| locks.set(locks.get().saturating_add_signed(change)));
    }

    pub(super) fn get() -> u32 {
        LOCKS.try_with(Cell::get).unwrap_or(0)
    }
}

impl Locked {
    #[inline]
    pub(crate) fn new() -> Self {
        #[cfg(debug_assertions)]
        count::add(1);
        Self(())
    }
}

#[cfg(debug_assertions)]
impl Drop for Locked {
    fn drop(&mut self) {
        count::add(-1);
    }
}

/// Panics if this thread holds a lock of the library. During unwinding this function does nothing, because a second
/// panic would abort the process.
#[inline]
fn check(what: &str) {
    #[cfg(debug_assertions)]
    assert!(count::get() == 0 || std::thread::panicking(), "BUG: {what} under a lock of the library");
    let _ = what;
}

/// Runs code that may call into the application (its log, its metrics, its wakers). If that code panics, this function
/// returns `None`. So a panic does not end work that is done for all callers, such as renewals or the supervision of a
/// connection.
pub(crate) fn survives<T>(call: impl FnOnce() -> T) -> Option<T> {
    check("code of the application is called");
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// Polls `call`, which may run code of the application. If it panics, returns `None`.
pub(crate) async fn survives_polls<F: Future>(call: F) -> Option<F::Output> {
    let mut call = pin!(call);
    poll_fn(|cx| match survives(|| call.as_mut().poll(cx)) {
        Some(polled) => polled.map(Some),
        None => Poll::Ready(None),
    })
    .await
}

/// Calls `change` with the value of a watch channel under its lock, and returns the result. If the drop of a replaced
/// value may run code of the application, `change` must return that value. Otherwise `tokio` would drop the value under
/// the lock.
pub(crate) fn change<T, R>(channel: &watch::Sender<T>, change: impl FnOnce(&mut T) -> R) -> R {
    let mut answer = None;
    // The wakers of the channel run after its lock is released, so `_locked` is dropped before they run.
    channel.send_modify(|value| {
        let _locked = Locked::new();
        answer = Some(change(value));
    });
    answer.expect("BUG: the closure is called once")
}

/// A [`tokio::sync::Notify`] whose wakers may panic. If a waker panics, the later wakers in the list do not run. Their
/// tasks wake up later by timers.
///
/// If a future of tokio's `Notify` is polled again with another waker, tokio clones that waker under a mutex of its own.
/// So the clone of a waker must not wait for a lock under which the application drops a guard.
#[derive(Debug, Default)]
pub(crate) struct Notify(tokio::sync::Notify);

impl Notify {
    pub(crate) const fn new() -> Self {
        Self(tokio::sync::Notify::const_new())
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        self.0.notified()
    }

    /// Waits until `check` returns a value. Calls it at once, and after each notification. This is cancel safe.
    pub(crate) async fn until<T>(&self, mut check: impl FnMut() -> Option<T>) -> T {
        loop {
            let mut notified = pin!(self.notified());
            // Registers before the check. Otherwise it would miss a change between the check and the wait.
            notified.as_mut().enable();
            if let Some(found) = check() {
                return found;
            }
            notified.await;
        }
    }

    pub(crate) fn notify_one(&self) {
        survives(|| self.0.notify_one());
    }

    pub(crate) fn notify_waiters(&self) {
        survives(|| self.0.notify_waiters());
    }
}

/// A field for types whose drop may run code of the application, such as the end of a span. Values of such types must
/// not be dropped under a lock. Debug assertions check this.
#[derive(Debug, Default)]
pub(crate) struct OutsideOfLocks(());

#[cfg(debug_assertions)]
impl Drop for OutsideOfLocks {
    fn drop(&mut self) {
        check("a value with code of the application is dropped");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;
    use crate::sync::Mutex;

    /// A waker that acquires a lock of the library, which must not be held when the waker runs.
    struct Reenters(Arc<Mutex<u32>>);

    impl Wake for Reenters {
        fn wake(self: Arc<Self>) {
            *self.0.lock() += 1;
        }
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a broken executor");
        }
    }

    #[test]
    fn a_waker_may_take_the_lock_or_panic() {
        let (state, notify) = (Arc::new(Mutex::new(0)), Notify::new());
        for waker in [Waker::from(Arc::new(Reenters(Arc::clone(&state)))), Waker::from(Arc::new(Panics))] {
            let mut waiting = std::pin::pin!(notify.notified());
            assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
            state.with(|count| *count += 1);
            notify.notify_waiters();
        }
        assert_eq!(*state.lock(), 3);
    }

    /// A wake-up that does not use these functions would not be checked.
    #[test]
    fn the_library_wakes_through_these_doors_alone() {
        fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                match name {
                    "tests" | "tests.rs" | "testkit" | "testing" | "foreign.rs" => {}
                    _ if path.is_dir() => sources(&path, found),
                    _ if name.ends_with(".rs") => found.push(path),
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.len() > 100, "the sources are there");
        for path in found {
            let text = std::fs::read_to_string(&path).expect("a source");
            let library = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let imports = |line: &str| line.starts_with("use tokio::sync::") && line.contains("Notify");
            assert!(!library.lines().any(imports), "{}: use crate::sync::Notify", path.display());
            assert!(!library.contains(".send_modify("), "{}: use crate::sync::change", path.display());
            let wakes = |line: &str| line.contains("Waker::wake") || line.contains(".wake()");
            let checked = |line: &str| line.contains("survives(");
            let unchecked = library.lines().find(|line| wakes(line) && !checked(line));
            assert_eq!(unchecked, None, "{}: use crate::sync::survives", path.display());
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    fn code_of_the_application_is_refused_under_a_lock() {
        let (state, notify) = (Mutex::new(OutsideOfLocks::default()), Notify::new());
        let refused = |call: &dyn Fn()| catch_unwind(AssertUnwindSafe(call)).is_err();
        assert!(refused(&|| {
            let _lock = state.lock();
            notify.notify_one();
        }));
        assert!(refused(&|| *state.lock() = OutsideOfLocks::default()), "the old value is dropped");
        let channel = watch::Sender::new(OutsideOfLocks::default());
        assert!(refused(&|| change(&channel, |value| *value = OutsideOfLocks::default())));
        drop(state.with(std::mem::take));
        drop(change(&channel, std::mem::take));
        notify.notify_one();
    }
}
