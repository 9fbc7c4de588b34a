//! Tests every kind on the memory store: which holders exclude each other, which waiter is served first, and several
//! keys at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::memory::Memory;
use lock_core::{
    Kind, LockErrorKind, LockGuard, LockManager, LockRequest, LossReason, Profile, Released, strategy,
};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::scripted::Scripted;
use crate::{is_free, millis};

fn locks() -> LockManager {
    LockManager::in_memory()
}

fn spawn(request: LockRequest) -> JoinHandle<lock_core::Result<LockGuard>> {
    tokio::spawn(request.strategy(strategy::wait()).acquire())
}

async fn settle() {
    tokio::time::sleep(millis(5)).await;
}

async fn got(waiting: JoinHandle<lock_core::Result<LockGuard>>) -> LockGuard {
    tokio::time::timeout(millis(5), waiting).await.expect("in time").unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_goes_before_later_readers() {
    let locks = locks();
    let first = locks.read("k").acquire().await.unwrap();
    let second = locks.read("k").acquire().await.unwrap();
    let writer = spawn(locks.write("k"));
    settle().await;
    let later: Vec<_> = (0..3).map(|_| spawn(locks.read("k"))).collect();
    settle().await;
    assert!(locks.read("k").try_acquire().await.unwrap().is_none(), "not even at once");
    drop((first, second));
    let writer = got(writer).await;
    settle().await;
    assert!(later.iter().all(|reader| !reader.is_finished()));
    drop(writer);
    for reader in later {
        drop(got(reader).await);
    }
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_turns_reader_lets_readers_in_and_no_writer() {
    let locks = locks();
    let writer = locks.write("k").acquire().await.unwrap();
    let token = writer.fencing_token().await.unwrap();
    let readers: Vec<_> = (0..2).map(|_| spawn(locks.read("k"))).collect();
    settle().await;
    let another = spawn(locks.write("k"));
    settle().await;
    let handle = writer.handle();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.fencing_token().await.unwrap(), token);
    assert!(!handle.is_held(), "the write lock is over");
    let mut held = Vec::new();
    for reader in readers {
        held.push(got(reader).await);
    }
    assert!(!another.is_finished());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(reader.is_held() && held[0].is_held(), "it is renewed");
    drop(held);
    assert_eq!(reader.release().await.unwrap(), Released::Released);
    drop(got(another).await);
    assert_eq!(locks.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_a_write_lock_of_its_own_turns_into_a_read_lock() {
    let locks = locks();
    for request in [locks.lock("k"), locks.read("k"), locks.fair("k")] {
        let error = request.acquire().await.unwrap().downgrade().await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        settle().await;
        assert!(is_free(&locks, "k").await, "it is given back");
    }
    let guard = locks.write("k").acquire().await.unwrap();
    let nested = guard.run(async { locks.write("k").acquire().await.unwrap() }).await.unwrap();
    assert_eq!(guard.downgrade().await.unwrap_err().kind(), LockErrorKind::InvalidRequest);
    assert!(nested.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_writer_inside_a_reader_is_refused_at_once_and_a_reader_inside_a_writer_enters() {
    let locks = locks();
    let inner = locks.clone();
    let refused = locks.read("k").run(async move { inner.write("k").acquire().await.unwrap_err() }).await;
    assert_eq!(refused.unwrap().kind(), LockErrorKind::Upgrade);
    let inner = locks.clone();
    let token = locks
        .write("k")
        .run_with(|handle| async move {
            let reader = inner.read("k").acquire().await.unwrap();
            assert_eq!(reader.fencing_token().await.unwrap(), handle.fencing_token().await.unwrap());
        })
        .await;
    token.unwrap();
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn writers_and_readers_of_many_tasks_exclude_each_other_and_end() {
    let locks = locks();
    let (readers, writers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut set = tokio::task::JoinSet::new();
    for number in 0..24 {
        let (locks, readers, writers) = (locks.clone(), Arc::clone(&readers), Arc::clone(&writers));
        set.spawn(async move {
            for round in 0..20 {
                let writes = (number + round) % 3 == 0;
                let request = if writes { locks.write("k") } else { locks.read("k") };
                let guard = request.strategy(strategy::wait()).acquire().await.unwrap();
                let count = if writes { &writers } else { &readers };
                count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(millis(1)).await;
                let (reading, writing) = (readers.load(Ordering::SeqCst), writers.load(Ordering::SeqCst));
                assert!(
                    writing == 0 || (writing == 1 && reading == 0),
                    "{writing} writers, {reading} readers"
                );
                count.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(done) = set.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_admits_so_many_in_order_and_renews_each() {
    let locks = locks();
    let semaphore = || locks.semaphore("k", 2).ttl(Duration::from_secs(1));
    let (first, second) = (semaphore().acquire().await.unwrap(), semaphore().acquire().await.unwrap());
    assert!(semaphore().try_acquire().await.unwrap().is_none());
    let waiting: Vec<_> = (0..3).map(|_| spawn(semaphore())).collect();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(first.is_held() && second.is_held() && waiting.iter().all(|waiting| !waiting.is_finished()));
    drop(first);
    settle().await;
    let finished: Vec<_> = waiting.iter().map(JoinHandle::is_finished).collect();
    assert_eq!(finished, [true, false, false]);
    for waiting in waiting {
        waiting.abort();
    }
    let refused = locks.semaphore("k", 3).acquire().await.expect_err("another number of permits");
    assert_eq!(refused.kind(), LockErrorKind::InvalidRequest);
    assert!(refused.to_string().contains("once the old permits are released"), "the way out: {refused}");
    drop(second);
    settle().await;
    let other = locks.semaphore("k", 3).acquire().await.expect("nobody has a permit of two any more");
    assert!(other.is_held());
}

#[tokio::test(start_paused = true)]
async fn kinds_that_have_nothing_in_common_are_refused_with_both_named() {
    let locks = locks();
    let _permit = locks.semaphore("k", 2).acquire().await.unwrap();
    for (request, named) in
        [(locks.lock("k"), "exclusive"), (locks.read("k"), "shared"), (locks.semaphore("k", 3), "3 permits")]
    {
        let error = request.acquire().await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        let text = error.to_string();
        assert!(text.contains("2 permits") && text.contains(named), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_keys_or_none() {
    let locks = locks();
    let b = locks.lock("b").acquire().await.unwrap();
    assert!(locks.all(["a", "b", "c"]).try_acquire().await.unwrap().is_none());
    assert!(is_free(&locks, "a").await && is_free(&locks, "c").await);
    let error = locks.all(["c", "b", "a"]).wait(millis(200)).acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.key()), (LockErrorKind::TimedOut, Some("b")), "{error}");
    settle().await;
    assert!(is_free(&locks, "a").await && is_free(&locks, "c").await, "what it had was given back");

    let all = spawn(locks.all(["c", "a", "b", "a"]));
    settle().await;
    drop(b);
    let all = got(all).await;
    for key in ["a", "b", "c"] {
        assert!(!is_free(&locks, key).await, "{key}");
    }
    assert_eq!((locks.held(), all.key()), (1, "a"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(all.is_held(), "all are renewed");
    assert_eq!(all.release().await.unwrap(), Released::Released);
    for key in ["a", "b", "c"] {
        assert!(is_free(&locks, key).await, "{key}");
    }
    assert_eq!(
        locks.all(Vec::<String>::new()).acquire().await.unwrap_err().kind(),
        LockErrorKind::InvalidRequest
    );
    let one = locks.all(["a", "a"]).acquire().await.unwrap();
    assert_eq!(one.key(), "a");
}

/// The request has one holder even if all of its keys are the same key, as in a transfer within one account.
#[tokio::test(start_paused = true)]
async fn keys_that_are_all_locked_have_one_holder_each_whatever_the_profile_says() {
    let builder = LockManager::builder(Memory::new());
    let builder = builder.profile("read", Profile::new().kind(Kind::Read));
    let builder = builder.profile("permits", Profile::new().kind(Kind::Semaphore { permits: 3 }));
    let locks = builder.build().expect("it can");
    for profile in ["read", "permits"] {
        for keys in [vec!["a", "b"], vec!["a", "a"], vec!["a"]] {
            let error = locks.all(keys).profile(profile).acquire().await.expect_err("they are not shared");
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
            assert!(error.to_string().contains("one holder each"), "{error}");
        }
    }
}

/// While a request waits for more keys, it keeps the keys that it already has. If the request is no longer polled, its
/// keys become free after its ttl.
#[tokio::test(start_paused = true)]
async fn the_keys_of_a_request_that_is_not_polled_are_free_after_its_ttl() {
    const TTL: Duration = Duration::from_secs(3);
    let locks = locks();
    let b = locks.lock("b").acquire().await.unwrap();
    let request = || locks.all(["a", "b"]).ttl(TTL).strategy(strategy::wait()).acquire();
    let mut waits = Box::pin(request());
    let polled = tokio::time::timeout(TTL * 20, &mut waits).await;
    assert!(polled.is_err(), "b is held");
    assert!(!is_free(&locks, "a").await, "and a is kept meanwhile");
    tokio::time::sleep(TTL + millis(1)).await;
    assert!(is_free(&locks, "a").await, "nobody polls it");
    let a = locks.lock("a").acquire().await.unwrap();
    drop(b);
    let polled = tokio::time::timeout(TTL * 2, &mut waits).await;
    assert!(polled.is_err(), "a is another's now");
    drop(a);
    let all = tokio::time::timeout(TTL, waits).await.expect("both are free").unwrap();
    assert!(all.is_held());
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_one_request_share_one_time_budget() {
    let locks = locks();
    let (a, _b) = (locks.lock("a").acquire().await.unwrap(), locks.lock("b").acquire().await.unwrap());
    let start = Instant::now();
    let all = tokio::spawn(locks.all(["a", "b"]).wait(millis(1_000)).acquire());
    tokio::time::sleep(millis(800)).await;
    drop(a);
    let error = all.await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.key()), (LockErrorKind::TimedOut, Some("b")));
    assert!(start.elapsed() < millis(1_300), "{:?}", start.elapsed());
    settle().await;
    assert!(is_free(&locks, "a").await);
}

#[tokio::test(start_paused = true)]
async fn losing_one_of_several_is_losing_all() {
    let (locks, store) = Scripted::manager(|_| {});
    let guard = locks.all(["a", "b"]).ttl(Duration::from_secs(3)).acquire().await.unwrap();
    // One of the keys is deleted in the store.
    let b = store.claims().remove(0).keys().last().cloned().unwrap();
    assert_eq!(b.as_str(), "b");
    store.forget(&b).await;
    let start = Instant::now();
    assert_eq!(guard.lost().await, LossReason::Taken);
    assert!(start.elapsed() <= Duration::from_secs(1), "at the next renewal");
    drop(guard);
    settle().await;
    assert!(is_free(&locks, "a").await, "the other is given back");
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_never_wait_for_each_other() {
    let locks = locks();
    let mut set = tokio::task::JoinSet::new();
    for number in 0..12_usize {
        let locks = locks.clone();
        set.spawn(async move {
            let keys = ["a", "b", "c"];
            for round in 0..20 {
                let (one, two) = (keys[(number + round) % 3], keys[(number + round + 1 + number % 2) % 3]);
                let request = locks.all([one, two]).strategy(strategy::wait());
                let guard = request.acquire().await.unwrap();
                tokio::time::sleep(millis(1)).await;
                guard.release().await.unwrap();
            }
        });
    }
    let all = async { while set.join_next().await.transpose().unwrap().is_some() {} };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("nobody waits for ever");
    assert_eq!(locks.held(), 0);
    for key in ["a", "b", "c"] {
        assert!(is_free(&locks, key).await, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_holds_all_of_them_enters_again_and_one_that_holds_some_is_refused() {
    let locks = locks();
    let inner = locks.clone();
    let entered = locks.all(["a", "b"]).run(async move {
        let one = inner.lock("b").acquire().await.unwrap();
        let both = inner.all(["b", "a"]).acquire().await.unwrap();
        assert_eq!(one.fencing_token().await.unwrap(), both.fencing_token().await.unwrap());
        assert_eq!(both.release().await.unwrap(), Released::StillHeld);
        inner.all(["b", "c"]).acquire().await.unwrap_err()
    });
    let refused = entered.await.unwrap();
    assert_eq!(refused.kind(), LockErrorKind::Reentered);
    assert!(refused.to_string().contains('c'), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_request_for_several_that_is_dropped_leaves_nothing() {
    let locks = locks();
    let c = locks.lock("c").acquire().await.unwrap();
    for polls in 0..30 {
        let mut request = Box::pin(locks.all(["a", "b", "c"]).strategy(strategy::wait()).acquire());
        for _ in 0..polls {
            let _ = futures_once(&mut request).await;
        }
        drop(request);
        settle().await;
        assert!(is_free(&locks, "a").await && is_free(&locks, "b").await, "after {polls} polls");
    }
    drop(c);
    settle().await;
    assert!(is_free(&locks, "c").await);
}

/// Polls the future once, and lets other tasks run.
async fn futures_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let polled = std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await;
    tokio::task::yield_now().await;
    polled
}

#[tokio::test(start_paused = true)]
async fn kinds_by_value_are_what_their_methods_make() {
    let locks = locks();
    for kind in [Kind::Reentrant, Kind::Fair, Kind::Read, Kind::Write, Kind::Semaphore { permits: 2 }] {
        let guard = locks.request("k", kind).acquire().await.unwrap();
        assert!(guard.is_held(), "{kind}");
        let lost = tokio::time::timeout(millis(50), guard.lost()).await;
        assert!(lost.is_err(), "{kind}: {lost:?}");
        let _: Option<LossReason> = lost.ok();
        guard.release().await.unwrap();
    }
}

/// `all` excludes readers of each key, as a writer of several keys needs.
#[tokio::test(start_paused = true)]
async fn several_keys_have_no_readers_beside_them() {
    let profile = Profile::new().kind(Kind::Write);
    let locks = LockManager::builder(Memory::new()).profile("transfer", profile).build().unwrap();
    for request in [locks.all(["a", "b"]), locks.all(["a", "b"]).profile("transfer")] {
        for key in ["a", "b"] {
            let reader = locks.read(key).acquire().await.unwrap();
            assert!(request.clone().try_acquire().await.unwrap().is_none(), "a reader has {key}");
            let waiting = tokio::spawn(request.clone().wait(millis(60_000)).acquire());
            tokio::time::sleep(millis(1)).await;
            drop(reader);
            let writer = waiting.await.unwrap().unwrap();
            assert!(locks.read(key).try_acquire().await.unwrap().is_none());
            assert_eq!(writer.release().await.unwrap(), lock_core::Released::Released);
        }
        let refused = request.acquire().await.unwrap().downgrade().await.unwrap_err();
        assert_eq!(refused.kind(), LockErrorKind::InvalidRequest, "{refused}");
    }
}
