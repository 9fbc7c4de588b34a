//! One manager on several tokio runtimes, in sequence and at the same time.

use std::task::{Context, Waker};
use std::time::Duration;

use lock_core::backend::redis::Redis;
use lock_core::backend::redlock::{Voter, VoterOptions};
use lock_core::{LockManager, Released};
use lock_tests::{Bound, PATIENCE, RedisServer, wait_until};
use tokio::runtime::{Builder, Runtime};

use crate::outside::{every_call_outside, refused_outside};
use crate::support::{connect, cycle, manager, ms, try_once};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A timeout that is longer than a busy machine takes to connect.
const TIMEOUT: &str = "?timeout=5s";

async fn patient(server: &RedisServer) -> LockManager {
    connect(&format!("{}{TIMEOUT}", server.url())).await
}

/// Checks that a call on a runtime finds its connection or opens one, and never waits until its deadline.
fn quick_cycles(runtime: &Runtime, locks: &LockManager, key: &str) {
    for _ in 0..3 {
        let bound = Bound::new(ms(2_500));
        runtime.block_on(cycle(locks, key));
        bound.check("a cycle without a time-out");
    }
}

#[test]
fn a_second_runtime_works_while_the_first_one_stands_still() {
    let server = RedisServer::start();
    let (first, second) = (runtime(), runtime());
    let locks = first.block_on(patient(&server));
    quick_cycles(&first, &locks, "k");
    // No thread drives the first runtime at this time.
    quick_cycles(&second, &locks, "k");
    quick_cycles(&first, &locks, "k");
}

#[test]
fn a_manager_outlives_its_first_runtime() {
    let server = RedisServer::start();
    let first = runtime();
    let locks = first.block_on(patient(&server));
    quick_cycles(&first, &locks, "k");
    drop(first);
    for _ in 0..3 {
        // Each runtime is like one test of a service.
        quick_cycles(&runtime(), &locks, "k");
    }
}

#[test]
fn a_guard_goes_from_a_runtime_that_ended_to_another() {
    let server = RedisServer::start();
    let first = runtime();
    let locks = first.block_on(manager(&server));
    let guard = first.block_on(async { locks.lock("k").ttl(ms(600)).acquire().await }).expect("it is free");
    drop(first);
    // This pause is longer than the lease. The renewal does not run on this runtime.
    std::thread::sleep(ms(1_200));
    let second = runtime();
    assert!(guard.is_held());
    assert!(second.block_on(locks.lock("k").try_acquire()).expect("an answer").is_none());
    assert!(second.block_on(guard.fencing_token()).is_ok());
    assert_eq!(second.block_on(guard.release()).expect("an answer"), Released::Released);
}

#[test]
fn two_runtimes_at_once_exclude_each_other() {
    let server = RedisServer::start();
    let locks = runtime().block_on(manager(&server));
    let inside = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                runtime().block_on(async {
                    for _ in 0..25 {
                        let guard = locks.lock("k").acquire().await.expect("within the wait");
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        guard.release().await.expect("an answer");
                    }
                });
            });
        }
    });
}

/// Returns the number of connections of the server, without the one of this request.
fn clients(server: &RedisServer) -> usize {
    server.get::<String>(&["CLIENT", "LIST"]).lines().count() - 1
}

#[tokio::test]
async fn a_manager_goes_without_a_trace() {
    let server = RedisServer::start();
    // A manager that was shut down has closed its connections, although the value still exists.
    let mut still_there = Vec::new();
    for orderly in [true, false] {
        for number in 0..5 {
            let locks = manager(&server).await;
            drop(try_once(&locks, &format!("k{number}")).await.expect("the key is free"));
            if orderly {
                locks.shutdown(Duration::from_secs(5)).await;
                still_there.push(locks);
            }
        }
        wait_until("the keys and the connections are gone", PATIENCE, async || {
            server.keys().is_empty() && clients(&server) == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_connect_that_is_given_up_closes_its_connection() {
    let server = RedisServer::start();
    let url = server.url();
    for polls in 0..12 {
        let mut connecting = std::pin::pin!(LockManager::connect(&url));
        for _ in 0..polls {
            if connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                break;
            }
            tokio::time::sleep(ms(1)).await;
        }
    }
    wait_until("the connections are gone", PATIENCE, async || clients(&server) == 0).await;
}

/// A plain executor polls each call. The call works, or its error says what is missing.
#[test]
fn no_call_panics_outside_of_tokio() {
    let server = RedisServer::start();
    for url in ["memory://".to_owned(), format!("{}{TIMEOUT}", server.url())] {
        every_call_outside(&url);
    }
    refused_outside(Redis::connect(&server.url()));
    let client = redis::Client::open(server.url()).expect("a URL of Redis");
    refused_outside(Redis::from_client(&client));
    refused_outside(Voter::connect(&server.url(), VoterOptions::default()));
    refused_outside(Voter::connect_all([server.url().as_str()], VoterOptions::default()));
    refused_outside(Voter::bootstrap_new_cluster([server.url().as_str()], VoterOptions::default()));
}
