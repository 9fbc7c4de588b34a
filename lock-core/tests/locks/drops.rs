use std::sync::{Arc, Mutex};

use lock_core::{LockManager, LockScope};

use crate::{is_free, millis, patient};

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_frees_the_key() {
    let locks = LockManager::in_memory();
    drop(locks.lock("k").acquire().await.unwrap());
    assert!(is_free(&locks, "k").await);
    assert_eq!(locks.held(), 0);
}

#[test]
fn a_guard_dropped_outside_a_runtime_or_after_it_frees_the_key() {
    let locks = LockManager::in_memory();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outside = runtime.block_on(locks.lock("outside").acquire()).unwrap();
    let after = runtime.block_on(locks.lock("after").acquire()).unwrap();
    drop(outside);
    drop(runtime);
    drop(after);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert!(runtime.block_on(is_free(&locks, "outside")));
    assert!(runtime.block_on(is_free(&locks, "after")));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_body_frees_the_key() {
    let locks = LockManager::in_memory();
    let panicking = tokio::spawn(locks.lock("k").run(async { panic!("on purpose") }));
    assert!(panicking.await.unwrap_err().is_panic());
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_the_line() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    let first = tokio::spawn(patient(&locks, "k", millis(60_000)).acquire());
    tokio::time::sleep(millis(1)).await;
    let second = tokio::spawn(patient(&locks, "k", millis(60_000)).acquire());
    tokio::time::sleep(millis(1)).await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    drop(guard);
    let guard = second.await.unwrap().unwrap();
    drop(guard);
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_waiters_cancelled_while_the_holder_releases_lose_nothing() {
    for cancelled_first in [false, true] {
        let locks = LockManager::in_memory();
        let guard = locks.lock("k").acquire().await.unwrap();
        let waiting: Vec<_> =
            (0..100).map(|_| tokio::spawn(patient(&locks, "k", millis(60_000)).acquire())).collect();
        tokio::time::sleep(millis(1)).await;
        let survivor = tokio::spawn(patient(&locks, "k", millis(60_000)).acquire());
        tokio::time::sleep(millis(1)).await;
        let cancel = || waiting.iter().for_each(tokio::task::JoinHandle::abort);
        if cancelled_first {
            cancel();
            drop(guard);
        } else {
            drop(guard);
            cancel();
        }
        drop(survivor.await.unwrap().unwrap());
        for task in waiting {
            let _ = task.await;
        }
        assert!(is_free(&locks, "k").await);
    }
}

/// Writes a word to a log when it is dropped.
struct Log(Arc<Mutex<Vec<&'static str>>>, &'static str);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_locals_of_the_body_are_dropped_before_the_key_is_free() {
    let locks = LockManager::in_memory();
    let log = Arc::new(Mutex::new(Vec::new()));
    let started = Arc::new(tokio::sync::Notify::new());
    let body = {
        let (log, started) = (log.clone(), started.clone());
        async move {
            let _local = Log(log, "local");
            started.notify_one();
            std::future::pending::<()>().await;
        }
    };
    let running = tokio::spawn(locks.lock("k").run(body));
    started.notified().await;
    let next = {
        let (request, log) = (patient(&locks, "k", millis(60_000)), log.clone());
        tokio::spawn(async move {
            let guard = request.acquire().await.unwrap();
            log.lock().unwrap().push("free");
            drop(guard);
        })
    };
    tokio::time::sleep(millis(1)).await;
    running.abort();
    next.await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["local", "free"]);
}

#[tokio::test(start_paused = true)]
async fn every_await_point_of_run_can_be_dropped() {
    let locks = LockManager::in_memory();
    for polls in 0..6 {
        let guard = locks.lock("k").acquire().await.unwrap();
        let nested = locks.clone();
        let mut running = Box::pin(patient(&locks, "k", millis(60_000)).run(async move {
            tokio::task::yield_now().await;
            nested.lock("k").run(tokio::task::yield_now()).await.unwrap();
        }));
        let mut guard = Some(guard);
        for poll in 0..polls {
            if futures_poll(&mut running).await {
                break;
            }
            if poll == 1 {
                guard = None;
            }
        }
        drop(running);
        drop(guard);
        assert!(is_free(&locks, "k").await, "dropped after {polls} polls");
        assert_eq!(locks.held(), 0);
    }
}

/// Polls the future once. Returns whether it is complete.
pub(crate) async fn futures_poll(future: &mut std::pin::Pin<Box<impl Future>>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_ready())).await
}

#[test]
fn what_must_cross_threads_does() {
    fn send<T: Send>(_: &T) {}
    fn send_sync<T: Send + Sync + Unpin + 'static>() {}
    send_sync::<LockManager>();
    send_sync::<lock_core::LockGuard>();
    send_sync::<lock_core::LockHandle>();
    send_sync::<lock_core::LockRequest>();
    send_sync::<lock_core::LockError>();
    send_sync::<LockScope>();
    let locks = LockManager::in_memory();
    send(&locks.lock("k").acquire());
    send(&locks.lock("k").try_acquire());
    send(&locks.lock("k").run(async {}));
    send(&locks.lock("k").run_with(|lock| async move { lock.lost().await }));
    send(&locks.shutdown(millis(1)));
    // A body that is not Send makes a future that is not Send, which still runs.
    drop(locks.lock("k").run(async { std::rc::Rc::new(1) }));
}
