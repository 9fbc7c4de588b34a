//! Futures that are dropped at every await point, while requests or replies are in flight.

use std::pin::pin;
use std::task::{Context, Waker};

use lock_core::{LockManager, Release, strategy};
use lock_tests::{Flow, PATIENCE, Proxy, RedisServer, wait_until};

use crate::support::{LONG, connect, empty, ms};

/// The fault of the network while a future is dropped.
#[derive(Clone, Copy, Debug)]
enum Fault {
    RequestsHeld,
    RepliesHeld,
    RequestsSwallowed,
    RepliesSwallowed,
    Cut,
    Delayed,
}

impl Fault {
    fn inject(self, proxy: &Proxy) {
        match self {
            Self::RequestsHeld => proxy.requests(Flow::Hold),
            Self::RepliesHeld => proxy.replies(Flow::Hold),
            Self::RequestsSwallowed => proxy.requests(Flow::Swallow),
            Self::RepliesSwallowed => proxy.replies(Flow::Swallow),
            Self::Cut => proxy.cut(),
            Self::Delayed => proxy.delay(ms(2)),
        }
    }

    fn heal(self, proxy: &Proxy) {
        proxy.heal();
        if matches!(self, Self::RequestsSwallowed | Self::RepliesSwallowed) {
            // TCP loses no bytes on an open connection. If bytes are lost, the connection must be reset.
            proxy.cut();
        }
    }
}

/// The step that is dropped.
#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    AcquireFenced,
    Release,
    Extend,
    Run,
    RunWithoutWaiting,
    GuardOnly,
    Waiting,
}

impl Step {
    const ALL: [Self; 8] = [
        Self::Acquire,
        Self::AcquireFenced,
        Self::Release,
        Self::Extend,
        Self::Run,
        Self::RunWithoutWaiting,
        Self::GuardOnly,
        Self::Waiting,
    ];

    /// Starts the step under `fault`, and drops it after `polls` polls.
    async fn dropped(self, site: &Site<'_>, fault: Fault, key: &str, polls: u32) {
        let Site { server, proxy, locks } = site;
        let request = || locks.lock(key).ttl(LONG).strategy(strategy::retry().within(LONG));
        let held = async || request().acquire().await.expect("the key is free");
        match self {
            Self::Acquire | Self::AcquireFenced => {
                fault.inject(proxy);
                poll(request().fencing(matches!(self, Self::AcquireFenced)).acquire(), polls).await;
            }
            Self::Release => {
                let guard = held().await;
                fault.inject(proxy);
                poll(guard.release(), polls).await;
            }
            Self::Extend => {
                let guard = held().await;
                fault.inject(proxy);
                poll(guard.extend(2 * LONG), polls).await;
            }
            Self::Run => {
                fault.inject(proxy);
                poll(request().run(tokio::task::yield_now()), polls).await;
            }
            Self::RunWithoutWaiting => {
                // The fault begins before the request, or between the request and the release.
                if polls.is_multiple_of(2) {
                    fault.inject(proxy);
                }
                let body = async { fault.inject(proxy) };
                poll(request().release(Release::Background).run(body), polls).await;
            }
            Self::GuardOnly => {
                let guard = held().await;
                fault.inject(proxy);
                drop(guard);
                tokio::time::sleep(ms(u64::from(polls))).await;
            }
            Self::Waiting => {
                server.command(&["SET", key, "somebody else", "PX", "60000"]);
                fault.inject(proxy);
                poll(request().acquire(), polls).await;
                // This deletion frees the key when the delayed bytes arrive.
                server.command(&["DEL", key]);
            }
        }
    }
}

/// Polls `future` `polls` times, with pauses in which the network may continue, then drops it.
async fn poll(future: impl Future, polls: u32) {
    let mut future = pin!(future);
    for _ in 0..polls {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        tokio::time::sleep(ms(5)).await;
    }
}

/// Drops every step under one fault, after a growing number of polls. The steps run concurrently, each with its own
/// connection and keys.
async fn under(fault: Fault) {
    let server = RedisServer::start();
    let [acquire, fenced, release, extend, run, quick, guard, waiting] =
        Step::ALL.map(|step| all_polls(&server, fault, step));
    let sites = tokio::join!(acquire, fenced, release, extend, run, quick, guard, waiting);
    // A request that arrives late would lock a key for a minute. No request may arrive after the last clean-up.
    tokio::time::sleep(ms(1_500)).await;
    assert_eq!(locks_of(&server, ""), [""; 0]);
    drop(sites);
}

/// A manager and its connection to the server.
struct Site<'a> {
    server: &'a RedisServer,
    proxy: Proxy,
    locks: LockManager,
}

async fn all_polls(server: &RedisServer, fault: Fault, step: Step) -> Site<'_> {
    let proxy = Proxy::before(server);
    let locks = connect(&proxy.url()).await;
    let site = Site { server, proxy, locks };
    // The last number of polls takes longer than the deadline of a call.
    for polls in [0, 1, 2, 3, 4, 120] {
        let key = format!("{step:?}-{polls}");
        step.dropped(&site, fault, &key, polls).await;
        fault.heal(&site.proxy);
        // The server is reachable again, and the lease is a minute.
        let what = format!("no key after {fault:?} {key}");
        wait_until(&what, PATIENCE, async || locks_of(server, &key).is_empty() && site.locks.held() == 0)
            .await;
    }
    site
}

/// Returns the keys without the last fencing tokens, which have their own lease.
fn locks_of(server: &RedisServer, beginning: &str) -> Vec<String> {
    let is_lock = |key: &String| key.starts_with(beginning) && !key.ends_with(":f");
    server.keys().into_iter().filter(is_lock).collect()
}

#[tokio::test]
async fn while_requests_are_held() {
    under(Fault::RequestsHeld).await;
}

#[tokio::test]
async fn while_replies_are_held() {
    under(Fault::RepliesHeld).await;
}

#[tokio::test]
async fn while_requests_are_lost() {
    under(Fault::RequestsSwallowed).await;
}

#[tokio::test]
async fn while_replies_are_lost() {
    under(Fault::RepliesSwallowed).await;
}

#[tokio::test]
async fn while_the_connection_is_cut() {
    under(Fault::Cut).await;
}

#[tokio::test]
async fn while_the_network_is_slow() {
    under(Fault::Delayed).await;
}

#[tokio::test]
async fn a_dropped_waiter_leaves_the_holder_alone() {
    let server = RedisServer::start();
    let (locks, others) = (connect(&server.url()).await, connect(&server.url()).await);
    let guard = locks.lock("k").ttl(LONG).acquire().await.expect("the key is free");
    for polls in 0..8 {
        poll(others.lock("k").strategy(strategy::wait()).acquire(), polls).await;
    }
    // A queue entry is removed in the background.
    wait_until("only the holder is left", PATIENCE, async || locks_of(&server, "") == ["k"]).await;
    assert!(guard.is_held());
    guard.release().await.expect("an answer");
    empty(&server, PATIENCE).await;
    drop(others);
}

/// A waiter is dropped while its queue entry is being released. If another task took over the entry, the release would
/// end that task's grant.
#[tokio::test]
async fn an_entry_that_is_being_released_is_passed_on_to_nobody() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (one, two) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let held = two.lock("k").ttl(LONG).acquire().await.expect("it is free");
    let mut first = Box::pin(one.lock("k").ttl(LONG).wait(ms(500)).acquire());
    assert!(tokio::time::timeout(ms(300), &mut first).await.is_err(), "it waits");
    proxy.requests(Flow::Hold);
    assert!(tokio::time::timeout(ms(300), &mut first).await.is_err(), "the release has no answer");
    let mut second = Box::pin(one.lock("k").ttl(LONG).strategy(strategy::wait()).acquire());
    assert!(tokio::time::timeout(ms(50), &mut second).await.is_err(), "it waits");
    let second = tokio::spawn(second);
    drop(first);
    // The store grants the key to the entry that is still there.
    held.release().await.expect("an answer");
    tokio::time::sleep(ms(50)).await;
    proxy.requests(Flow::Pass);
    let guard = tokio::time::timeout(PATIENCE, second).await.expect("served").expect("no panic");
    let guard = guard.expect("a grant");
    // This call is answered after all delayed bytes.
    one.lock("other").run(async {}).await.expect("an answer");
    let rival = two.lock("k").strategy(strategy::fail_fast()).acquire().await;
    assert!(rival.is_err() && guard.is_held(), "two holders");
    guard.release().await.expect("an answer");
    empty(&server, PATIENCE).await;
}
