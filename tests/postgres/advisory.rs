//! The advisory locks of `mode=advisory`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::backend::postgres::advisory::PostgresAdvisory;
use lock_core::clock::Clock;
use lock_core::testkit::contract::{self, Subject};
use lock_core::{LockErrorKind, LockManager, LossReason, ManagerBuilder, strategy};
use lock_tests::{Bound, Flow, PATIENCE, PgBouncer, PostgresServer, Proxy, wait_until};
use tokio::task::JoinSet;

use crate::support::{LONG, ms, try_once, within, works_again};

/// The cases that do not apply: leases of the store's own, an order of waiters, and features that the store lacks.
const NOT_APPLICABLE: &[&str] = &[
    "@semaphore",
    "@write",
    "downgrade::",
    "expiry::",
    "fencing::",
    "fifo::",
    "inspect::",
    "latch::",
    "line::",
    "listener::",
    "permit::",
    "permits::",
    "several::",
    "shared::",
    "cancel::a_place_in_a_queue",
    "cancel::a_wait",
    "release::a_waiter_is_told",
    "release::after_expiry",
    "release::keeps",
    "release::of_one_who_ran_out",
    "release::says_kept",
    "renewal::not_after_expiry",
    "renewal::promises_what_is_kept",
    "session::its_end_frees_every_key_of_several",
    "session::its_end_takes_its_queue_entries_along",
    "session::its_end_wakes_those_who_wait_for_it",
];

/// The number of cases that apply.
const CASES: usize = 34;

const SESSION: Duration = Duration::from_secs(2);

fn url(server: &PostgresServer) -> String {
    format!("{}?mode=advisory&session_timeout=2s", server.url_of("postgres"))
}

async fn manager(server: &PostgresServer) -> LockManager {
    LockManager::connect(&url(server)).await.expect("the server has advisory locks")
}

/// Returns the number of advisory locks that the server has granted.
fn granted(server: &PostgresServer) -> String {
    server.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
}

/// The statement that ends the sessions of the library.
const TERMINATE: &str =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lock-core'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn advisory_locks_keep_the_contract_as_far_as_they_can() {
    let server = Arc::new(PostgresServer::start());
    let store = Arc::new(PostgresAdvisory::connect(&url(&server)).await.expect("it has advisory locks"));
    let report = contract::run(|| {
        let (server, ends) = (Arc::clone(&server), Arc::clone(&store));
        let subject = Subject::from_dyn(store.clone()).with_session_end(move |process| {
            let pid = ends.session_of(process).expect("it has a session");
            let server = Arc::clone(&server);
            Box::pin(async move {
                tokio::task::spawn_blocking(move || {
                    server.sql(&format!("SELECT pg_terminate_backend({pid}, 5000)"))
                })
                .await
                .expect("no panic");
            })
        });
        std::future::ready(subject)
    })
    .await;
    report.assert_complete(NOT_APPLICABLE);
    assert_eq!(report.ran.len(), CASES);
    // A session ends soon after its manager is dropped, and frees everything that a case has left.
    wait_until("nothing is left", PATIENCE, async || granted(&server) == "0").await;
}

#[tokio::test]
async fn what_it_cannot_do_is_refused_by_its_name() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let all = [
        ("fair", locks.fair("k").try_acquire().await.err()),
        ("read", locks.read("k").try_acquire().await.err()),
        ("write", locks.write("k").try_acquire().await.err()),
        ("semaphore", locks.semaphore("k", 2).try_acquire().await.err()),
        ("all", locks.all(["a", "b"]).try_acquire().await.err()),
        ("fencing", locks.lock("k").fencing(true).try_acquire().await.err()),
        ("linger", locks.lock("k").linger(ms(5)).try_acquire().await.err()),
        ("min_hold", locks.lock("k").min_hold(ms(5)).try_acquire().await.err()),
        ("ttl", locks.lock("k").ttl(SESSION / 2).try_acquire().await.err()),
        ("leader", locks.leader("k").run(|_| async {}).await.err()),
    ];
    for (what, error) in all {
        let error = error.unwrap_or_else(|| panic!("{what} was accepted"));
        assert!(error.to_string().contains("postgres-advisory"), "{what}: {error}");
    }
    let error = locks.locks().await.expect_err("no list");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
    assert_eq!(granted(&server), "0");
}

/// The lock number is the one that the docs compute in SQL.
#[tokio::test]
async fn others_who_use_advisory_locks_exclude_and_are_excluded() {
    let server = PostgresServer::start();
    let (one, other) = (manager(&server).await, manager(&server).await);
    let number = "('x' || left(encode(sha256(convert_to('order:42', 'UTF8')), 'hex'), 16))::bit(64)::bigint";
    let tries = format!("SELECT pg_try_advisory_lock({number})");
    let guard = try_once(&one, "order:42").await.expect("it is free");
    assert_eq!(server.sql(&tries), "f", "it is held");
    let error = try_once(&other, "order:42").await.expect_err("it is held");
    assert_eq!(error.kind(), LockErrorKind::Contended, "{error}");
    let error = one.lock("order:42").reentrant(false).strategy(strategy::fail_fast()).acquire().await;
    assert_eq!(error.expect_err("another task of the process").kind(), LockErrorKind::Contended);
    guard.release().await.expect("an answer");
    assert_eq!(server.sql(&tries), "t", "and free again when that session ends");
    works_again(&other, "order:42").await;
    assert_eq!(granted(&server), "0");
}

/// Runs tasks of two managers. All tasks of a manager share one session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_holder_at_a_time_among_tasks_and_processes() {
    let server = PostgresServer::start();
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for locks in [manager(&server).await, manager(&server).await] {
        for _ in 0..8 {
            let (locks, inside) = (locks.clone(), Arc::clone(&inside));
            tasks.spawn(async move {
                let mut most = 0;
                for _ in 0..20 {
                    let request = locks.lock("k").reentrant(false).ttl(LONG).strategy(strategy::wait());
                    let guard = request.acquire().await.expect("its turn comes");
                    most = most.max(inside.fetch_add(1, Ordering::SeqCst) + 1);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.expect("an answer");
                }
                most
            });
        }
    }
    assert!(tasks.join_all().await.into_iter().all(|most| most == 1), "two at a time");
    assert_eq!(granted(&server), "0");
}

#[tokio::test]
async fn a_session_that_is_ended_is_told_at_once() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let (one, other) =
        (try_once(&locks, "a").await.expect("free"), try_once(&locks, "b").await.expect("free"));
    server.sql(TERMINATE);
    for guard in [&one, &other] {
        assert_eq!(within(PATIENCE, "the loss", guard.lost()).await, LossReason::SessionEnded);
        assert!(!guard.is_held());
    }
    works_again(&locks, "a").await;
}

#[tokio::test]
async fn a_server_that_restarts_forgets_its_locks_and_says_so() {
    let mut server = PostgresServer::start();
    let locks = manager(&server).await;
    let guard = try_once(&locks, "k").await.expect("it is free");
    server.restart();
    assert_eq!(within(PATIENCE, "the loss", guard.lost()).await, LossReason::SessionEnded);
    works_again(&locks, "k").await;
}

/// The holder that is cut off is lost before the server grants the key to the next holder.
#[tokio::test]
async fn a_partition_ends_the_holder_before_the_session() {
    let server = PostgresServer::start();
    let proxy = Proxy::to(server.address());
    let through = format!(
        "{}&session_timeout=2s",
        server.url_at(proxy.port()).replace("migrate=true", "mode=advisory")
    );
    let cut_off = LockManager::connect(&through).await.expect("through the proxy");
    let other = manager(&server).await;
    let guard = try_once(&cut_off, "k").await.expect("it is free");
    proxy.requests(Flow::Hold);
    proxy.replies(Flow::Hold);
    let cut = Clock::Suspend.now();
    let next = other.lock("k").ttl(LONG).strategy(strategy::wait()).acquire();
    let next = within(PATIENCE, "the session ends", next).await.expect("the key is free");
    let granted = Clock::Suspend.now();
    // By the clock the lock is lost at this time, even if the task that reports the loss has not run yet.
    assert!(!guard.is_held(), "two hold the key");
    within(PATIENCE, "the loss", guard.lost()).await;
    assert!(granted.since(cut) > SESSION * 3 / 4, "{:?}", granted.since(cut));
    next.release().await.expect("an answer");
    proxy.heal();
    works_again(&cut_off, "k").await;
}

/// A server that is stopped proves nothing, so the holder gives up at its own deadline.
#[tokio::test]
async fn a_silent_server_ends_the_holder_at_its_deadline() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    let guard = try_once(&locks, "k").await.expect("it is free");
    server.stop();
    let stopped = Bound::new(PATIENCE);
    tokio::time::sleep(SESSION).await;
    assert!(!guard.is_held(), "held after {:?}", stopped.elapsed());
    within(PATIENCE, "the loss", guard.lost()).await;
    server.cont();
    works_again(&locks, "k").await;
}

/// The session stays alive without any lock, for longer than the server waits for its next message.
#[tokio::test]
async fn a_lock_is_kept_for_longer_than_the_session_timeout() {
    let server = PostgresServer::start();
    let (locks, other) = (manager(&server).await, manager(&server).await);
    let guard = try_once(&locks, "k").await.expect("it is free");
    let began = Bound::new(PATIENCE);
    while began.elapsed() < SESSION * 5 / 2 {
        assert!(guard.is_held());
        assert!(try_once(&other, "k").await.is_err(), "it is held");
        tokio::time::sleep(ms(100)).await;
    }
    guard.release().await.expect("an answer");
}

/// A future that is dropped during a request leaves no lock.
#[tokio::test]
async fn a_dropped_attempt_leaves_nothing() {
    let server = PostgresServer::start();
    let locks = manager(&server).await;
    for round in 0..200 {
        let key = format!("k{}", round % 3);
        let attempt = locks.lock(&key).ttl(LONG).strategy(strategy::fail_fast()).acquire();
        let _ = tokio::time::timeout(Duration::from_micros(round * 5), attempt).await;
    }
    wait_until("nothing is left", PATIENCE, async || granted(&server) == "0").await;
    works_again(&locks, "k0").await;
}

#[tokio::test]
async fn a_shared_session_is_refused() {
    let server = PostgresServer::start();
    for settings in ["", "ignore_startup_parameters = options"] {
        let pooler = PgBouncer::before(&server, 2, settings);
        let url = format!("{}?mode=advisory", pooler.url());
        let error = LockManager::connect(&url).await.expect_err("two transactions, two sessions");
        assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("pooler"), "{error}");
    }
}

/// Cuts the network behind a proxy. The holder's kernel still gets acknowledgements from the proxy, and the server's
/// kernel gets none. The holder must be notified before the server grants the key to the next holder.
async fn a_holder_whose_proxy_is_cut_off(session: Duration) {
    let server = PostgresServer::start();
    let proxy = Proxy::to(server.address());
    let options = format!("mode=advisory&session_timeout={}s", session.as_secs());
    let through = server.url_at(proxy.port()).replace("migrate=true", &options);
    let direct = format!("{}?{options}", server.url_of("postgres"));
    let [cut_off, other] = [through, direct].map(async |url| {
        let builder = ManagerBuilder::connect(&url).await.expect("the server has advisory locks");
        builder.ttl(LONG).build().expect("valid defaults")
    });
    let (cut_off, other) = (cut_off.await, other.await);
    let guard = try_once(&cut_off, "k").await.expect("it is free");
    proxy.cut_off_server();
    let cut = Clock::Suspend.now();
    let holder = tokio::spawn(async move {
        while !guard.is_endangered() && guard.is_held() {
            tokio::time::sleep(ms(10)).await;
        }
        let endangered = Clock::Suspend.now();
        guard.lost().await;
        (endangered, Clock::Suspend.now())
    });
    let next = other.lock("k").ttl(LONG).strategy(strategy::wait()).acquire();
    let next = within(session + PATIENCE, "the session ends", next).await.expect("the key is free");
    let granted = Clock::Suspend.now();
    let (endangered, lost) = within(session + PATIENCE, "the loss", holder).await.expect("no panic");
    let after_cut = [endangered, lost, granted].map(|moment| moment.since(cut));
    assert!(after_cut[0] < after_cut[1] && after_cut[1] < after_cut[2], "in this order: {after_cut:?}");
    assert!(after_cut[0] < session / 2, "the danger is told in time: {after_cut:?}");
    next.release().await.expect("an answer");
}

#[tokio::test]
async fn the_server_ends_no_session_on_which_a_holder_counts() {
    a_holder_whose_proxy_is_cut_off(Duration::from_secs(20)).await;
}

#[tokio::test]
#[ignore = "takes more than a minute: run it after a change of the timers"]
async fn the_server_ends_no_long_session_on_which_a_holder_counts() {
    a_holder_whose_proxy_is_cut_off(Duration::from_secs(60)).await;
}
