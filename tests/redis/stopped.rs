//! A server that is stopped, and a server that cannot be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockGuard, LockManager, LossReason, Released, strategy};
use lock_tests::{Bound, Flow, PATIENCE, Proxy, RedisServer, soon_in_one_of_ten, wait_until};
use tokio::task::JoinHandle;

use crate::support::{LONG, calls, connect, cycle, empty, manager, ms, try_once, within, works_again};

const TTL: Duration = ms(500);

/// Sets a flag when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs a body that never ends, under a lock with the lease [`TTL`]. Returns a flag that the end of the body sets, and
/// the outcome of the call.
fn hold_for_ever(locks: &LockManager) -> (Arc<AtomicBool>, JoinHandle<Result<(), LockError>>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let local = Flag(Arc::clone(&dropped));
    let body = async move {
        let _local = local;
        std::future::pending().await
    };
    (dropped, tokio::spawn(locks.lock("k").ttl(TTL).run(body)))
}

/// Waits for the key in another manager, which polls the server often.
fn wait_for(locks: &LockManager) -> JoinHandle<Result<LockGuard, LockError>> {
    let backoff = strategy::Backoff::exponential(ms(2), ms(2));
    tokio::spawn(locks.lock("k").ttl(LONG).strategy(strategy::wait().backoff(backoff)).acquire())
}

#[tokio::test]
async fn a_loss_is_told_while_the_server_stands_still() {
    let server = RedisServer::start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let (dropped, running) = hold_for_ever(&locks);
    wait_until("the key is taken", PATIENCE, async || !server.keys().is_empty()).await;
    let waiting = wait_for(&others);
    wait_until("another one waits", PATIENCE, async || calls(&server, "set") > 1).await;

    server.stop();
    let outcome = within(PATIENCE, "telling the loss", running).await.expect("no panic");
    let error = outcome.expect_err("the lock is lost");
    assert_eq!((error.kind(), error.loss_reason()), (LockErrorKind::Lost, Some(LossReason::Expired)));
    assert!(dropped.load(Ordering::SeqCst), "the body was dropped");
    // The holder is notified before another holder can have the key, because the server is still stopped.
    assert!(!waiting.is_finished());
    server.cont();

    let guard = within(PATIENCE, "getting the key", waiting).await.expect("no panic");
    guard.expect("the key is free").release().await.expect("an answer");
    for locks in [&locks, &others] {
        works_again(locks, "k").await;
    }
    empty(&server, PATIENCE).await;
}

/// The documentation of `wait` says this. A call to the store continues to its own deadline, so the wait may last
/// longer, but by at most one call.
#[tokio::test]
async fn the_limit_of_a_wait_does_not_cut_a_call_short_and_a_timeout_around_it_does() {
    // The limit is half of the first duration. Two calls would always take twice as long.
    soon_in_one_of_ten(ms(400), async || {
        let (call, cut_short) = waits_on_a_stopped_server(ms(400)).await;
        [call / 2, cut_short]
    })
    .await;
}

/// Returns how long a wait of 100 ms takes, and how long it takes inside a timeout.
async fn waits_on_a_stopped_server(timeout: Duration) -> (Duration, Duration) {
    let server = RedisServer::start();
    let locks = connect(&format!("{}?timeout={}ms", server.url(), timeout.as_millis())).await;
    works_again(&locks, "k").await;
    server.stop();
    let wait = ms(100);
    let since = Bound::new(PATIENCE);
    let error = locks.lock("k").wait(wait).acquire().await.expect_err("the server stands still");
    let call = since.elapsed();
    assert!(error.is_unavailable(), "{error}");
    assert!(call >= timeout, "after {call:?}");
    let since = Bound::new(PATIENCE);
    let bounded = tokio::time::timeout(wait, locks.lock("k").ttl(LONG).wait(wait).acquire()).await;
    let cut_short = since.elapsed();
    assert!(bounded.is_err(), "the server stands still");
    server.cont();
    // If the server grants the lock later, the lock is released.
    works_again(&locks, "k").await;
    empty(&server, PATIENCE).await;
    (call, cut_short)
}

#[tokio::test]
async fn a_holder_that_is_cut_off_knows_before_another_gets_the_key() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (locks, others) = (connect(&proxy.url()).await, manager(&server).await);
    for _ in 0..3 {
        let guard = locks.lock("k").ttl(TTL).acquire().await.expect("the key is free");
        let waiting = wait_for(&others);
        proxy.requests(Flow::Hold);
        let other = within(PATIENCE, "getting the key", waiting)
            .await
            .expect("no panic")
            .expect("the lease runs out");
        // By the clock the lock is lost at this time, even if the thread that reports the loss has not run yet.
        assert!(!guard.is_held() && guard.check().is_err(), "two hold the key");
        let reason = within(PATIENCE, "telling the loss", guard.lost()).await;
        assert_eq!(reason, LossReason::Expired);
        let error = guard.release().await.expect_err("it is lost");
        assert_eq!(error.kind(), LockErrorKind::Lost);
        proxy.heal();
        works_again(&locks, "elsewhere").await;
        // The delayed request did not change the lock of the other client.
        other.release().await.expect("an answer");
        empty(&server, PATIENCE).await;
    }
}

#[tokio::test]
async fn a_client_that_gave_up_leaves_no_orphan() {
    let server = RedisServer::start();
    let (mut round, mut late) = (0, 0);
    // If a request finds its connection busy, it is not sent before the connection is closed.
    while late < 2 {
        round += 1;
        assert!(round <= 20, "{late} of {round} requests reached the server after their caller gave up");
        let locks = manager(&server).await;
        server.command(&["CONFIG", "RESETSTAT"]);
        server.stop();
        let call = within(PATIENCE, "a call without an answer", try_once(&locks, "k")).await;
        let error = call.expect_err("no answer");
        assert_eq!(error.kind(), LockErrorKind::Unavailable);
        assert!(error.is_temporary());
        // One release happens while the caller waits for the connection, and one after the connection was closed.
        tokio::time::sleep(ms(round % 3 * 900)).await;
        server.cont();
        let looking = Bound::new(Duration::from_secs(1));
        while calls(&server, "set") == 0 && looking.elapsed() < Duration::from_secs(1) {
            tokio::time::sleep(ms(10)).await;
        }
        late += u64::from(calls(&server, "set") > 0);
        empty(&server, PATIENCE).await;
        works_again(&locks, "k").await;
    }
    // No lock appears later either.
    tokio::time::sleep(ms(500)).await;
    assert!(server.keys().is_empty(), "{:?}", server.keys());
    cycle(&manager(&server).await, "k").await;
}

#[tokio::test]
async fn an_outage_shorter_than_the_lease_costs_no_lock() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&proxy.url()).await;
    let guard = locks.lock("k").ttl(Duration::from_secs(6)).acquire().await.expect("the key is free");
    for _ in 0..2 {
        proxy.refuse(true);
        proxy.cut();
        wait_until("the holder is warned", PATIENCE, async || guard.is_endangered()).await;
        guard.check().expect("a warning is no loss");
        proxy.heal();
        wait_until("a renewal got through", PATIENCE, async || !guard.is_endangered()).await;
    }
    guard.check().expect("the lock was kept");
    assert_eq!(guard.release().await.expect("an answer"), Released::Released);
}

#[tokio::test]
async fn a_server_that_is_gone_is_dialled_in_vain_only_now_and_then() {
    let mut server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&proxy.url()).await;
    cycle(&locks, "k").await;
    // The proxy accepts connections and closes them.
    server.kill9();
    let before = proxy.traffic().opened;
    let over = Bound::new(PATIENCE);
    let dials = || proxy.traffic().opened - before;
    while over.elapsed() < Duration::from_secs(2) || dials() < 4 {
        over.check("the dials go on");
        let call = within(PATIENCE, "a call without a server", try_once(&locks, "k")).await;
        assert_eq!(call.expect_err("nobody is there").kind(), LockErrorKind::Unavailable);
    }
    let (dials, took) = (dials(), over.elapsed());
    // Two connections attempt to reconnect with pauses of up to a quarter of a second. So the attempts continue without
    // a busy loop.
    assert!(u128::from(dials) < took.as_millis() * 3 / 100, "{dials} dials in {took:?}");
    server.restart();
    works_again(&locks, "k").await;
}

#[tokio::test]
async fn a_script_that_arrives_after_its_deadline_does_nothing() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    for _ in 0..5 {
        // Each script reports the time, and the quickest answer counts.
        let fenced = locks.lock("k").fencing(true).acquire().await.expect("the key is free");
        fenced.release().await.expect("an answer");
    }
    server.command(&["CONFIG", "RESETSTAT"]);
    server.stop();
    let request = locks.lock("k").ttl(LONG).fencing(true).strategy(strategy::fail_fast());
    let call = within(PATIENCE, "a call without an answer", request.acquire()).await;
    assert_eq!(call.expect_err("no answer").kind(), LockErrorKind::Unavailable);
    // The server's clock is known to within one round trip, so this waits until the deadline has certainly passed.
    tokio::time::sleep(ms(100)).await;
    server.cont();
    // The two scripts are the late script and the release of its owner. They run in any order.
    wait_until("both scripts ran", PATIENCE, async || calls(&server, "evalsha") >= 2).await;
    assert_eq!(calls(&server, "set"), 0, "the key was taken for nobody");
}

/// Measures how long it takes until a silent connection is replaced.
async fn silence() -> Duration {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&proxy.url()).await;
    cycle(&locks, "k").await;
    let before = proxy.traffic();
    // The test starts directly after a heartbeat, so that the next one is as far away as possible. No request runs
    // meanwhile.
    proxy.until("a heartbeat", |traffic| traffic.replies.passed > before.replies.passed).await;
    // The connection is neither closed nor refused, as when a host vanishes.
    proxy.requests(Flow::Hold);
    let time = Bound::new(PATIENCE);
    proxy.until("a new connection is made", |traffic| traffic.opened > before.opened).await;
    let took = time.elapsed();
    proxy.heal();
    works_again(&locks, "k").await;
    took
}

/// Two heartbeats are missed, half a second apart. A third would take two seconds.
#[tokio::test]
async fn a_connection_that_falls_silent_is_replaced_after_a_second_and_a_half() {
    let mut goes = Vec::new();
    // The test uses the minimum of several runs, so that other processes on the machine do not affect the result.
    for _ in 0..3 {
        let took: [Duration; 3] = tokio::join!(silence(), silence(), silence()).into();
        goes.push(took);
        if took.iter().any(|took| *took < ms(1_750)) {
            return;
        }
    }
    panic!("{goes:?}");
}
