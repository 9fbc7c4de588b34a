//! Tests shutdown, defaults, and the ways to get a manager.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::{Waiting, memory::Memory};
use lock_core::{Kind, LockError, LockErrorKind, LockManager, LossReason, OnLost, Profile, strategy};
use tokio::time::Instant;

use crate::millis;
use crate::scripted::{Asked, Every, Scripted};

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_releases_within_its_grace_and_for_the_last_ones_after_it() {
    for grace in [Duration::ZERO, millis(5_000)] {
        for held in [false, true] {
            let (locks, store) = Scripted::manager(|_| {});
            store.script().release_takes = millis(300);
            let mut guards = Vec::new();
            for key in ["a", "b"] {
                guards.push(locks.lock(key).acquire().await.unwrap());
            }
            if !held {
                guards.clear();
            }
            let start = Instant::now();
            let report = locks.shutdown(grace).await;
            assert_eq!(report.unanswered, 0, "{grace:?}, held {held}");
            let grace = if held { grace } else { Duration::ZERO };
            assert!(start.elapsed() <= grace + millis(310), "{grace:?}, held {held}: {:?}", start.elapsed());
            assert_eq!(store.script().released, 2, "{grace:?}, held {held}");
            assert_eq!(report.revoked.len(), guards.len());
            assert_eq!(store.asked(&Asked::Close), 1);
            let last = store.script().asked.last().map(|(_, asked)| asked.clone());
            assert_eq!(last, Some(Asked::Close), "the connections are closed last");
        }
    }
}

/// After the grace, the shutdown briefly waits for releases that are still unanswered. If a lock was held until the end
/// of the grace, its release gets one second.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_soon_after_its_grace_though_the_store_hangs() {
    for (grace, held, longest) in [
        (millis(800), false, millis(1_000)),
        (millis(5_000), false, millis(5_100)),
        (Duration::ZERO, false, millis(1_000)),
        (millis(800), true, millis(1_800)),
    ] {
        let (locks, store) = Scripted::manager(|_| {});
        store.script().release_takes = Duration::from_secs(60);
        drop(locks.lock("dropped").acquire().await.unwrap());
        let guard = if held { Some(locks.lock("held").acquire().await.unwrap()) } else { None };
        let start = Instant::now();
        let report = locks.shutdown(grace).await;
        assert!(
            (grace..=longest + millis(10)).contains(&start.elapsed()),
            "{grace:?}: {:?}",
            start.elapsed()
        );
        assert_eq!((report.revoked.len(), report.unanswered > 0), (usize::from(held), true));
        drop(guard);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_tells_the_body_and_counts_the_releases_that_are_not_answered() {
    let (locks, store) = Scripted::manager(|_| {});
    store.script().release_takes = millis(60_000);
    let running = tokio::spawn(locks.lock("k").run(std::future::pending::<()>()));
    tokio::time::sleep(millis(1)).await;
    drop([locks.lock("a").acquire().await.unwrap(), locks.lock("b").acquire().await.unwrap()]);
    tokio::time::sleep(millis(1)).await;
    let report = locks.shutdown(millis(100)).await;
    assert_eq!(report.revoked, ["k"]);
    // The release of the body's lock is also unanswered, so at least three releases are.
    assert!(report.unanswered >= 3, "{}", report.unanswered);
    assert_eq!(running.await.unwrap().unwrap_err().loss_reason(), Some(LossReason::ShutDown));
}

#[cfg(feature = "testkit")]
#[tokio::test(start_paused = true)]
async fn a_shutdown_counts_the_requests_under_way_and_ends_with_the_last_of_them() {
    use lock_core::testkit::{Fault, Flaky, Operation};
    for heals in [false, true] {
        let (flaky, control) = Flaky::new(Memory::new());
        let locks = LockManager::builder(flaky).build().unwrap();
        control.fail_always(Operation::Acquire, Fault::HangAnswer);
        let under_way = ["a", "b"].map(|key| tokio::spawn(locks.lock(key).acquire()));
        tokio::time::sleep(millis(1)).await;
        let start = Instant::now();
        let heal = async {
            tokio::time::sleep(millis(100)).await;
            if heals {
                control.heal();
            }
        };
        let (report, ()) = tokio::join!(locks.shutdown(millis(5_000)), heal);
        assert_eq!(report.unanswered, if heals { 0 } else { 2 });
        assert_eq!(start.elapsed() < millis(200), heals, "{:?}", start.elapsed());
        under_way.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

#[tokio::test(start_paused = true)]
async fn the_request_goes_before_the_profile_and_the_profile_before_the_manager() {
    let every = |ms| Every(millis(ms), millis(ms));
    let locks = LockManager::builder(Memory::new())
        .ttl(millis(1_000))
        .strategy(strategy::retry())
        .wait(millis(300))
        .profile("p", Profile::new().ttl(millis(9)))
        .profile("p", Profile::new().ttl(millis(2_000)).wait(millis(200)).renew(false))
        .profile("s", Profile::new().strategy(every(150)))
        .build()
        .unwrap();
    let guard = locks.lock("held").acquire().await.unwrap();
    let waited = async |request: lock_core::LockRequest| {
        let start = Instant::now();
        assert!(request.acquire().await.unwrap_err().is_contended());
        start.elapsed().as_millis() / 10 * 10
    };
    let held = || locks.lock("held");
    assert_eq!(waited(held()).await, 300);
    assert_eq!(waited(held().profile("p")).await, 200);
    assert_eq!(waited(held().profile("p").wait(millis(100))).await, 100);
    assert_eq!(waited(held().wait(millis(100))).await, 100);
    // The manager's limit applies only to the manager's strategy. Another strategy would refuse the limit.
    assert_eq!(waited(held().profile("s")).await, 150);
    assert_eq!(waited(held().profile("s").strategy(every(80))).await, 80);
    assert_eq!(waited(held().strategy(every(80))).await, 80);
    // `try_acquire` needs no limit, and accepts a request that has one.
    for request in [held(), held().profile("s"), held().wait(millis(100))] {
        let start = Instant::now();
        assert!(request.try_acquire().await.unwrap().is_none());
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
    drop(guard);

    let remaining =
        async |request: lock_core::LockRequest| request.acquire().await.unwrap().remaining().as_millis();
    assert_eq!(remaining(locks.lock("k")).await, 998);
    assert_eq!(remaining(locks.lock("k").profile("p")).await, 1_998, "the last of one name counts");
    assert_eq!(remaining(locks.lock("k").profile("p").ttl(millis(500))).await, 498);

    let lasting = async |request: lock_core::LockRequest| {
        let guard = request.acquire().await.unwrap();
        tokio::time::sleep(millis(5_000)).await;
        guard.is_held()
    };
    assert!(lasting(locks.lock("k")).await);
    assert!(!lasting(locks.lock("k").profile("p")).await);
    assert!(lasting(locks.lock("k").profile("p").renew(true)).await);
    assert!(!lasting(locks.lock("k").renew(false)).await);
}

#[tokio::test(start_paused = true)]
async fn limits_may_be_equal_and_not_beyond() {
    let locks = LockManager::in_memory();
    let ttl = millis(1_000);
    let request = || locks.lock("k").ttl(ttl);
    drop(request().renew(false).min_hold(ttl).acquire().await.unwrap());
    drop(locks.lock("j").max_hold(ttl).min_hold(ttl).acquire().await.unwrap());
    let too_long = Duration::from_secs(20 * 366 * 24 * 60 * 60);
    for ttl in [Duration::ZERO, too_long] {
        let error = LockManager::builder(Memory::new()).ttl(ttl).build().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    }
    let error = locks.lock("k").ttl(too_long).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
}

#[test]
fn a_store_that_contradicts_itself_gets_no_manager() {
    let error = Scripted::build(|store| store.min_ttl = Duration::MAX).unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
    assert!(error.to_string().contains("the capability of the memory store contradicts itself"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_the_store_cannot_do_is_refused_before_it_is_asked() {
    let (locks, store) = Scripted::manager(|store| {
        (store.shared, store.permits) = (false, false);
        store.waiting = Waiting::Poll;
    });
    for request in [locks.read("k"), locks.write("k"), locks.fair("k"), locks.semaphore("k", 1)] {
        assert_eq!(request.acquire().await.unwrap_err().kind(), LockErrorKind::Unsupported);
    }
    assert_eq!(store.tries().len(), 0);
    // This store does not support a ping.
    assert_eq!(locks.ping().await.unwrap_err().kind(), LockErrorKind::Unsupported);
    drop(locks.lock("k").acquire().await.unwrap());
    let (locks, store) = Scripted::manager(|store| store.keeps_after_release = None);
    let error = locks.lock("k").min_hold(millis(100)).acquire().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
    assert_eq!(store.tries().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn run_with_lets_the_body_end_when_it_is_told_to() {
    let locks = LockManager::in_memory();
    let ended = AtomicUsize::new(0);
    let request = locks.lock("k").ttl(millis(500)).renew(false).on_lost(OnLost::Finish);
    let outcome = request.run_with(async |lock| {
        tokio::time::sleep(millis(2_000)).await;
        assert!(!lock.is_held());
        ended.fetch_add(1, Ordering::SeqCst);
    });
    assert!(outcome.await.unwrap_err().is_lost());
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_scope_of_a_manager_inside_a_lock_keeps_the_lock() {
    let locks = LockManager::in_memory();
    let nested = locks.clone();
    let inner = async move {
        let current = nested.scope(async { LockManager::current().unwrap().lock("k").try_acquire().await });
        current.await.unwrap().expect("the same task entered it").key().to_owned()
    };
    assert_eq!(locks.lock("k").run(inner).await.unwrap(), "k");
    // A different key is a different lock, even inside a body.
    let nested = locks.clone();
    let other = async move { nested.lock("other").acquire().await.unwrap().key().to_owned() };
    assert_eq!(locks.lock("k").run(other).await.unwrap(), "other");
}

/// A subscriber that counts the events of one level.
struct Events(tracing::Level, Arc<AtomicUsize>, Then);

/// The reaction of the subscriber after it has counted an event.
#[derive(PartialEq)]
enum Then {
    GoesOn,
    Panics,
}

/// Returns a second subscriber. If there is only one and another test reaches a call site first, tracing disables that
/// call site for all tests. If there are two, tracing asks each of them.
fn second_log() -> tracing::Dispatch {
    tracing::Dispatch::new(Events(tracing::Level::WARN, Arc::default(), Then::GoesOn))
}

impl tracing::Subscriber for Events {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() == self.0
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        assert!(self.2 == Then::GoesOn, "a log that panics");
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Runs in another process, because all tests of one process share its environment.
#[test]
fn the_environment_names_the_store() {
    const CHILD: &str = "LOCK_TEST_EXPECTS";
    let cases = [
        (None, "the variable LOCK_URL is not set", "memory"),
        (Some(""), "the variable LOCK_URL is set and empty", "the variable LOCK_URL is set and empty"),
        (Some(" "), "the variable LOCK_URL is set and empty", "the variable LOCK_URL is set and empty"),
        (Some("memory://"), "memory", "memory"),
        (Some("localhost"), "there is no `://`", "there is no `://`"),
    ];
    let Ok(expected) = std::env::var(CHILD) else {
        for (url, alone, with_default) in cases {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "ending::the_environment_names_the_store"]);
            child.env(CHILD, format!("{alone}|{with_default}"));
            match url {
                Some(url) => child.env("LOCK_URL", url),
                None => child.env_remove("LOCK_URL"),
            };
            let output = child.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && said.contains("1 passed"), "{url:?}: {said}");
        }
        return;
    };
    let (alone, with_default) = expected.split_once('|').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let told = |made: Result<LockManager, LockError>| match made {
        Ok(locks) => locks.store().to_owned(),
        Err(error) => {
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
            error.to_string()
        }
    };
    let got = told(runtime.block_on(LockManager::from_env()));
    assert!(got.contains(alone), "{got}");
    let got = told(runtime.block_on(LockManager::from_env_or("memory://")));
    assert!(got.contains(with_default), "{got}");
}

#[test]
fn a_log_that_panics_ends_no_renewals() {
    let errors = Arc::new(AtomicUsize::new(0));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let locks = LockManager::in_memory();
    let _second = second_log();
    tracing::subscriber::with_default(
        Events(tracing::Level::ERROR, Arc::clone(&errors), Then::Panics),
        || {
            runtime.block_on(async {
                let kept = locks.lock("kept").ttl(millis(300)).acquire().await.unwrap();
                let lost = locks.lock("lost").max_hold(millis(500)).acquire().await.unwrap();
                tokio::time::sleep(millis(5_000)).await;
                assert_eq!(errors.load(Ordering::SeqCst), 1, "the loss is logged, and the log panics");
                assert!(kept.is_held() && !lost.is_held());
            });
        },
    );
}

#[test]
fn a_log_that_panics_at_a_warning_costs_no_renewal() {
    let warnings = Arc::new(AtomicUsize::new(0));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let locks = LockManager::builder(Memory::new()).warn_held_after(millis(1_000)).build().unwrap();
    let _second = second_log();
    tracing::subscriber::with_default(
        Events(tracing::Level::WARN, Arc::clone(&warnings), Then::Panics),
        || {
            runtime.block_on(async {
                let kept = locks.lock("kept").ttl(millis(300)).acquire().await.unwrap();
                tokio::time::sleep(millis(5_000)).await;
                assert_eq!(warnings.load(Ordering::SeqCst), 1, "the log panics");
                assert!(kept.is_held());
            });
        },
    );
}

#[test]
fn outside_a_runtime_is_an_error_over_a_remote_store_too() {
    let (locks, store) = Scripted::manager(|store| store.placement = lock_core::backend::Placement::Remote);
    let mut acquire = std::pin::pin!(locks.lock("k").acquire());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(error)) = acquire.as_mut().poll(&mut cx) else { panic!("no answer") };
    assert!(error.kind() == LockErrorKind::InvalidRequest && error.to_string().contains("tokio runtime"));
    assert_eq!(store.tries().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_with_the_last_guard_and_wakes_every_waiter() {
    // The waiters are in the local queue for the first kind, and in the store's queue for the second.
    for (kind, tries) in [(Kind::Reentrant, None), (Kind::Fair, Some(4))] {
        let (locks, store) = Scripted::manager(|_| {});
        let guard = locks.request("k", kind).acquire().await.unwrap();
        store.script().acquire_takes = millis(1);
        let hour = Duration::from_secs(3_600);
        let wait = || locks.request("k", kind).strategy(strategy::wait()).acquire();
        let waiting = [(); 3].map(|()| tokio::spawn(wait()));
        tokio::time::sleep(millis(10)).await;
        assert!(tries.is_none_or(|tries| store.tries().len() == tries), "{kind}");
        let start = Instant::now();
        let ended = async {
            for waiter in waiting {
                assert_eq!(waiter.await.unwrap().unwrap_err().kind(), LockErrorKind::ShuttingDown);
            }
            assert!(start.elapsed() < millis(10), "{:?}", start.elapsed());
            tokio::time::sleep(millis(100)).await;
            drop(guard);
        };
        let (report, ()) = tokio::join!(locks.shutdown(hour), ended);
        assert_eq!(report, lock_core::ShutdownReport::default());
        assert!(start.elapsed() < millis(200), "{:?}", start.elapsed());
    }
}

/// The locks are not renewed any more, but they are held until their leases end.
#[test]
fn a_shutdown_takes_what_was_locked_on_a_runtime_that_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Memory::new();
    let manager = || LockManager::builder(store.clone()).build().unwrap();
    let locks = manager();
    let guards = ["first", "later"].map(|key| runtime().block_on(locks.lock(key).acquire()).unwrap());
    let last = runtime();
    // The start of a new renewer must not remove a schedule that still contains leases.
    drop(last.block_on(locks.lock("k").acquire()).unwrap());
    let mut report = last.block_on(locks.shutdown(Duration::ZERO));
    report.revoked.sort();
    assert_eq!((report.revoked, report.unanswered), (vec!["first".to_owned(), "later".to_owned()], 0));
    for guard in guards {
        assert_eq!(guard.check().unwrap_err().loss_reason(), Some(LossReason::ShutDown));
        assert!(
            last.block_on(manager().lock(guard.key()).try_acquire()).unwrap().is_some(),
            "{}",
            guard.key()
        );
    }
}

/// The manager may see the runtime of the shutdown for the first time.
#[test]
fn a_shutdown_on_a_new_runtime_releases_what_was_locked_on_one_that_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (locks, store) = Scripted::manager(|_| {});
    let guard = runtime().block_on(locks.lock("k").acquire()).unwrap();
    let report = runtime().block_on(locks.shutdown(Duration::ZERO));
    assert_eq!((report.revoked, report.unanswered), (vec!["k".to_owned()], 0));
    assert_eq!(store.releases().len(), 1);
    drop(guard);
    // The lock is also released if its guard is dropped while the shutdown waits for the guard.
    let (locks, store) = Scripted::manager(|_| {});
    let guard = runtime().block_on(locks.lock("k").acquire()).unwrap();
    let report = runtime().block_on(async {
        let (report, ()) = tokio::join!(locks.shutdown(Duration::from_secs(60)), async { drop(guard) });
        report
    });
    assert_eq!((report, store.releases().len()), (lock_core::ShutdownReport::default(), 1));
}

/// The loss was not recorded when the lease expired, because the renewer had ended with the runtime.
#[test]
fn a_lock_that_ran_out_on_a_runtime_that_has_ended_was_not_taken_by_the_shutdown() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locks = LockManager::in_memory();
    let guard = runtime().block_on(locks.lock("k").ttl(millis(50)).acquire()).unwrap();
    let report = runtime().block_on(async {
        while guard.is_held() {
            tokio::time::sleep(millis(5)).await;
        }
        locks.shutdown(Duration::ZERO).await
    });
    assert_eq!(report.revoked, Vec::<String>::new());
    assert_eq!(guard.check().unwrap_err().loss_reason(), Some(LossReason::Expired));
}

/// The lock is not renewed any more, but it is held until its lease ends.
#[test]
fn what_ends_a_lock_from_outside_reaches_one_of_a_runtime_that_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let locks = LockManager::in_memory();
    let forced = runtime().block_on(locks.lock("k").acquire()).unwrap();
    let done = runtime().block_on(async {
        let found = locks.inspect("k").await.unwrap().expect("it is held");
        assert!(found.holders[0].held_since.is_some(), "memory knows since when");
        locks.force_release("k", &found.holders[0].id, "a test").await.unwrap()
    });
    assert!(done);
    assert_eq!(forced.check().unwrap_err().loss_reason(), Some(LossReason::Forced));
    let (locks, store) = Scripted::manager(|_| {});
    let ended = runtime().block_on(locks.lock("k").acquire()).unwrap();
    store.listener().session_ended(&[store.claims()[0].owner]);
    assert_eq!(ended.check().unwrap_err().loss_reason(), Some(LossReason::SessionEnded));
}

#[tokio::test(start_paused = true)]
async fn the_manager_of_a_scope_is_current_inside_its_locks_too() {
    let tenant = LockManager::builder(Memory::new()).namespace("tenant").build().unwrap();
    let inside = tenant.scope(async {
        let current = || LockManager::current().expect("there is one");
        current().lock("k").run(async { current().lock("j").acquire().await.unwrap().key().to_owned() }).await
    });
    assert_eq!(inside.await.unwrap(), "tenant:j");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_has_ended_is_not_in_the_way_of_other_kinds_and_terms() {
    let locks = LockManager::in_memory();
    let (scope, handle) =
        locks.read("k").run_with(async |lock| (lock_core::LockScope::current(), lock)).await.unwrap();
    // The handle keeps the ended grant in memory.
    assert!(!handle.is_held());
    for request in [locks.write("k"), locks.lock("k").reentrant(false)] {
        drop(scope.clone().enter(request.acquire()).await.unwrap());
    }
}
