//! Every call of the library on an executor other than tokio. The call works, or its error says what is missing.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use lock_core::leader::LeaderChange;
use lock_core::{LockErrorKind, LockGuard, LockManager, LossReason, Released, Result, strategy};
use tokio::runtime::Runtime;

const TTL: Duration = Duration::from_secs(60);

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `future` on this thread until it is done, like a plain executor.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Polls a call that needs a runtime of its caller. The error of the call must say so.
#[track_caller]
pub(crate) fn refused_outside<T>(call: impl Future<Output = Result<T>>) {
    let Err(error) = block_on(call) else { panic!("it was accepted") };
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("inside a tokio runtime"), "{error}");
}

/// Makes every call of a manager outside of tokio.
///
/// # Panics
/// When a call panics, or does not do what it promises.
pub(crate) fn every_call_outside(url: &str) {
    let runtime = Runtime::new().expect("a runtime");
    if url != "memory://" {
        refused_outside(LockManager::connect(url));
    }
    let locks = runtime.block_on(LockManager::connect(url)).expect("the server is there");
    takes_nothing(&locks);
    looks(&runtime, &locks);
    of_a_guard(&runtime, &locks);
    latches(&locks);
    leads(&runtime, &locks);
    // One guard is dropped later, and one is not.
    let guard = held(&runtime, &locks, "outside:dropped");
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    let kept = held(&runtime, &locks, "outside:kept");
    let report = block_on(locks.shutdown(Duration::from_millis(200)));
    assert_eq!((report.revoked.len(), report.unanswered), (1, 0), "{report:?}");
    assert_eq!(block_on(kept.lost()), LossReason::ShutDown);
}

fn held(runtime: &Runtime, locks: &LockManager, key: &str) -> LockGuard {
    let request = locks.lock(key).ttl(TTL).strategy(strategy::fail_fast());
    runtime.block_on(request.acquire()).expect("it is free")
}

/// Checks that no lock is acquired outside of a runtime, because its holder needs the timers of the runtime.
fn takes_nothing(locks: &LockManager) {
    let request = || locks.lock("outside").ttl(TTL);
    refused_outside(request().acquire());
    refused_outside(request().try_acquire());
    refused_outside(request().run(async {}));
    refused_outside(request().run_with(async |_| ()));
    refused_outside(locks.all(["outside:a", "outside:b"]).acquire());
    if locks.store() != "memory" {
        refused_outside(locks.fair("outside").acquire());
    }
    refused_outside(locks.leader("outside").campaign());
    refused_outside(locks.leader("outside").run(async |_| ()));
}

fn looks(runtime: &Runtime, locks: &LockManager) {
    assert_eq!(block_on(locks.ping()).expect("it is there").serving, 1);
    let guard = held(runtime, locks, "outside:seen");
    assert!(block_on(locks.is_locked("outside:seen")).expect("an answer"));
    let info = block_on(locks.inspect("outside:seen")).expect("an answer").expect("it is held");
    let all = block_on(locks.locks()).expect("an answer").locks;
    assert!(all.iter().any(|lock| lock.key == "outside:seen"), "{all:?}");
    assert_eq!(block_on(locks.locks_matching("outside:seen")).expect("an answer").locks.len(), 1);
    assert_eq!(block_on(locks.semaphore("outside:permits", 3).available()).expect("an answer"), 3);
    assert!(block_on(locks.leader("outside:nobody").current()).expect("an answer").is_none());
    let mut events = locks.events();
    let forced = block_on(locks.force_release("outside:seen", &info.holders[0].id, "a test"));
    assert!(forced.expect("an answer"));
    assert!(matches!(block_on(guard.lost()), LossReason::Forced | LossReason::Taken));
    assert!(block_on(events.next()).is_some());
}

fn of_a_guard(runtime: &Runtime, locks: &LockManager) {
    let guard = held(runtime, locks, "outside:held");
    let token = block_on(guard.fencing_token()).expect("it is held");
    assert_eq!(block_on(guard.handle().fencing_token()).expect("it is held"), token);
    block_on(guard.extend(TTL)).expect("it is held");
    block_on(guard.handle().extend(TTL)).expect("it is held");
    assert_eq!(block_on(guard.run(async { 7 })).expect("it is held"), 7);
    assert_eq!(block_on(guard.release()).expect("it was held"), Released::Released);

    let guard = held(runtime, locks, "outside:held");
    assert_eq!(block_on(guard.handle().release_early()).expect("it was held"), Released::Released);
    let guard = held(runtime, locks, "outside:held");
    block_on(guard.release_within(TTL));
    if locks.store() != "postgres-advisory" {
        let writer = runtime.block_on(locks.write("outside:written").ttl(TTL).acquire()).expect("it is free");
        let reader = block_on(writer.downgrade()).expect("it is held");
        block_on(reader.release()).expect("it was held");
    }
    let brief = locks.lock("outside:brief").ttl(TTL).max_hold(Duration::from_millis(300));
    let brief = runtime.block_on(brief.acquire()).expect("it is free");
    assert_eq!(block_on(brief.lost()), LossReason::MaxHold);
}

fn latches(locks: &LockManager) {
    let latch = locks.latch("outside:latch");
    match block_on(latch.set(1)) {
        Err(error) => assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}"),
        Ok(is_set) => {
            assert!(is_set);
            let waited = block_on(latch.wait_within(Duration::from_millis(50))).expect_err("it is closed");
            assert!(waited.is_timed_out(), "{waited}");
            assert_eq!(block_on(latch.count()).expect("an answer"), Some(1));
            assert_eq!(block_on(latch.count_down()).expect("an answer"), 0);
            block_on(latch.wait()).expect("it is open");
        }
    }
}

fn leads(runtime: &Runtime, locks: &LockManager) {
    let election = locks.leader("outside:lead");
    let leadership = runtime.block_on(election.campaign()).expect("nobody leads");
    let mut changes = election.changes();
    assert!(matches!(block_on(changes.next()), Some(LeaderChange::Elected { .. })));
    assert!(block_on(election.current()).expect("an answer").is_some());
    assert_eq!(block_on(leadership.run(async { 7 })).expect("it leads"), 7);
    block_on(leadership.resign()).expect("it led");
    assert!(matches!(block_on(changes.next()), Some(LeaderChange::Resigned)));
    block_on(election.resign());
}
