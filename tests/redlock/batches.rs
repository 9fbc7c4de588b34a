//! Requests of several callers that leave as one: each gets its own answer, behind the same gate.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use lock_core::backend::{Attempt, Backend, Claim, Held, Released};
use lock_core::{LockErrorKind, ManagerBuilder, Result};
use lock_tests::{Bound, PATIENCE, RedisServer};
use tokio::sync::Barrier;

use crate::support::{Client, MAX_TTL, assert_quarantined, ms, new_cluster, voting_server};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);

/// Polls the futures at the same time, in one task, and returns their outputs.
async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        for (future, output) in futures.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        let is_done = futures.iter().all(|(_, output)| output.is_some());
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures.into_iter().filter_map(|(_, output)| output).collect()
}

/// Polls a future once. Returns whether it is pending.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// Asks for all claims at the same time, in one task.
async fn ask(client: &Client, claims: &[Claim]) -> Vec<Result<Attempt>> {
    join_all(claims.iter().map(|claim| client.ask(claim))).await
}

/// Returns how often each command ran since the last call: those of clients and those of scripts.
fn commands(server: &RedisServer) -> BTreeMap<String, u64> {
    let stats = server.command_stats();
    server.command(&["CONFIG", "RESETSTAT"]);
    stats.into_iter().map(|(name, (calls, _))| (name, calls)).collect()
}

fn claims(client: &Client, keys: impl IntoIterator<Item = u32>) -> Vec<Claim> {
    keys.into_iter().map(|key| client.claim(&format!("k{key}"), MAX_TTL)).collect()
}

fn granted(answers: &[Result<Attempt>]) -> usize {
    answers.iter().filter(|answer| matches!(answer, Ok(Attempt::Granted(_)))).count()
}

#[tokio::test]
async fn claims_share_a_script_and_its_look_at_the_marker() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    for (count, scripts) in [(1, 1), (2, 1), (16, 1), (17, 2), (64, 4)] {
        let claims = claims(&client, 0..count);
        commands(&server);
        assert_eq!(granted(&ask(&client, &claims).await), claims.len());
        let seen = commands(&server);
        let [evalsha, hget, set] = ["evalsha", "hget", "set"].map(|name| seen[name]);
        assert_eq!((evalsha, hget, set), (scripts, scripts, u64::from(count)), "{count} claims");
        let released = join_all(claims.iter().map(|claim| client.release(claim))).await;
        assert!(released.iter().all(|released| *released == Released::Released), "{released:?}");
        let seen = commands(&server);
        assert_eq!((seen["evalsha"], seen["del"]), (scripts, scripts), "{count} releases");
        assert_eq!(server.keys(), ["lock:voter"]);
    }
}

/// Each task asks for a lock of its own, through the whole library and over three servers.
#[tokio::test]
async fn the_locks_of_several_tasks_cost_each_server_two_commands() {
    let servers: Arc<Vec<RedisServer>> = Arc::new((0..3).map(|_| RedisServer::start()).collect());
    new_cluster(&servers.iter().collect::<Vec<_>>(), LONG).await;
    let hosts: Vec<String> = servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redlock://{}/?max_ttl=60s", hosts.join(","));
    // So long that nothing is renewed meanwhile.
    let builder = ManagerBuilder::connect(&url).await.expect("they are up").ttl(LONG);
    let locks = builder.build().expect("a ttl that it can hold");
    for tasks in [1, 2, 8, 16] {
        servers.iter().map(commands).for_each(drop);
        let all_hold = Arc::new(Barrier::new(tasks));
        let working = (0..tasks).map(|number| {
            let (locks, all_hold, servers) = (locks.clone(), Arc::clone(&all_hold), Arc::clone(&servers));
            tokio::spawn(async move {
                let guard = locks.lock(format!("k{number}")).acquire().await.expect("it is free");
                if all_hold.wait().await.is_leader() {
                    // Two servers are enough to hold, and a release waits for the answer of the third.
                    let bound = Bound::new(PATIENCE);
                    while !servers.iter().all(|server| server.keys().len() == tasks + 1) {
                        bound.check("each has them");
                        tokio::time::sleep(ms(1)).await;
                    }
                    // No event says that its last answer is here.
                    tokio::time::sleep(ms(50)).await;
                }
                all_hold.wait().await;
                guard.release().await.expect("an answer");
            })
        });
        for task in working.collect::<Vec<_>>() {
            task.await.expect("no panic");
        }
        let bound = Bound::new(PATIENCE);
        while !servers.iter().all(|server| server.keys() == ["lock:voter"]) {
            bound.check("the last server has its releases");
            tokio::time::sleep(ms(1)).await;
        }
        for server in servers.iter() {
            let seen = commands(server);
            let [evalsha, set, del] = ["evalsha", "set", "del"].map(|name| seen[name]);
            assert_eq!((evalsha, set, del), (2, tasks as u64, 1), "{tasks} tasks: {seen:?}");
        }
    }
}

/// For example in a `select!` whose other branch goes on and asks for another lock.
#[tokio::test]
async fn a_caller_that_is_not_polled_any_more_holds_up_nobody() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let claims = claims(&client, 0..2);
    let mut first = Box::pin(client.ask(&claims[0]));
    assert!(is_pending(first.as_mut()).await);
    let second = tokio::time::timeout(PATIENCE, client.ask(&claims[1])).await.expect("it need not wait");
    assert!(matches!(second, Ok(Attempt::Granted(_))), "{second:?}");
    assert!(matches!(first.await, Ok(Attempt::Granted(_))), "the answer waits for it");
}

/// Its caller has lost its patience, and the lock must not stay until the end of its lease.
#[tokio::test]
async fn a_release_leaves_though_its_caller_is_gone() {
    let server = voting_server(LONG).await;
    let client = Client::of(&server, LONG).await;
    for count in 1..=3 {
        let claims: Vec<_> = (0..count).map(|n| client.claim(&format!("k{n}"), LONG)).collect();
        assert_eq!(granted(&ask(&client, &claims).await), claims.len());
        let mut releases: Vec<_> = claims.iter().map(|claim| Box::pin(client.release(claim))).collect();
        for release in &mut releases {
            assert!(is_pending(release.as_mut()).await);
        }
        drop(releases);
        let bound = Bound::new(PATIENCE);
        while server.keys() != ["lock:voter"] {
            bound.check("the locks are free");
            tokio::time::sleep(ms(1)).await;
        }
    }
}

/// What the script for releases does not settle is released alone: a lock that a client of another kind waits for, and
/// one that its owner keeps taken.
#[tokio::test]
async fn a_release_that_needs_a_closer_look_gets_it() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let claims = claims(&client, 0..3);
    assert_eq!(granted(&ask(&client, &claims).await), 3);
    server.command(&["SETRANGE", "k1", "48", "!"]);
    assert_eq!(client.voter.release(&claims[2], Some(MAX_TTL)).await.ok(), Some(Released::Released));
    let released = join_all(claims.iter().map(|claim| client.release(claim))).await;
    assert_eq!(released, [Released::Released; 3], "the last one is repeated, and the key stays taken");
    let mut left = server.keys();
    left.sort();
    assert_eq!(left, ["k2", "lock:voter"]);
}

/// One is taken, one is the owner's already, one has readers, and one holds other data.
#[tokio::test]
async fn each_gets_the_answer_that_it_would_get_alone() {
    let server = voting_server(MAX_TTL).await;
    let (client, other) = (Client::of(&server, MAX_TTL).await, Client::of(&server, MAX_TTL).await);
    let claims = claims(&client, 0..6);
    other.take("k1", MAX_TTL).await;
    assert_eq!(granted(&ask(&client, &claims[2..3]).await), 1);
    server.command(&["SADD", "k3", "data"]);
    server.command(&["SET", "k4", ""]);
    let answers = ask(&client, &claims).await;
    assert!(matches!(answers[0], Ok(Attempt::Granted(_))), "{answers:?}");
    let Ok(Attempt::Held(Held { remaining: Some(left), holder: Some(_), own: false, .. })) = &answers[1]
    else {
        panic!("{answers:?}");
    };
    assert!(*left <= MAX_TTL, "{left:?}");
    assert!(matches!(answers[2], Ok(Attempt::Granted(_))), "it is idempotent: {answers:?}");
    assert!(
        matches!(&answers[3], Err(error) if error.kind() == LockErrorKind::InvalidRequest),
        "{answers:?}"
    );
    assert!(matches!(answers[4], Ok(Attempt::Held(_))), "{answers:?}");
    assert!(matches!(answers[5], Ok(Attempt::Granted(_))), "{answers:?}");
    // Only what the owner has is freed.
    let released = join_all(claims.iter().map(|claim| client.release(claim))).await;
    use Released::{Expired, Released as Freed, Taken};
    assert_eq!(released, [Freed, Taken, Freed, Taken, Taken, Freed]);
    assert_eq!(join_all(claims[..1].iter().map(|claim| client.release(claim))).await, [Expired]);
    let mut left = server.keys();
    left.sort();
    assert_eq!(left, ["k1", "k3", "k4", "lock:voter"]);
}

#[tokio::test]
async fn one_key_has_one_owner_however_many_ask_at_once() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let claims = claims(&client, [1; 20]);
    let answers = ask(&client, &claims).await;
    assert_eq!(granted(&answers), 1, "{answers:?}");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let held = answers.iter().filter_map(|answer| match answer {
        Ok(Attempt::Held(held)) => Some(held.own),
        _ => None,
    });
    assert!(held.into_iter().all(|own| own), "the holder is of this manager");
}

#[tokio::test]
async fn a_server_that_forgot_grants_to_none_of_them() {
    for fault in [&["FLUSHALL"][..], &["DEL", "lock:voter"]] {
        let server = voting_server(MAX_TTL).await;
        let client = Client::of(&server, MAX_TTL).await;
        client.take("k0", MAX_TTL).await;
        server.command(fault);
        for answer in ask(&client, &claims(&client, 1..9)).await {
            assert_quarantined(&answer.expect_err("it forgot a lease"), MAX_TTL);
        }
        assert!(
            server.keys().iter().all(|key| ["lock:voter", "k0"].contains(&&**key)),
            "{:?}",
            server.keys()
        );
    }
}

#[tokio::test]
async fn a_server_that_lost_its_scripts_is_registered_once() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    server.command(&["SCRIPT", "FLUSH"]);
    commands(&server);
    let claims = claims(&client, 0..8);
    assert_eq!(granted(&ask(&client, &claims).await), claims.len());
    assert_eq!(commands(&server)["multi"], 1);
    server.command(&["SCRIPT", "FLUSH"]);
    let released = join_all(claims.iter().map(|claim| client.release(claim))).await;
    assert!(released.iter().all(|released| *released == Released::Released), "{released:?}");
}

/// The first of a batch sends the requests of the others, also if its caller gives up before they leave.
#[tokio::test]
async fn a_caller_that_gives_up_harms_no_other() {
    let server = voting_server(MAX_TTL).await;
    let client = Client::of(&server, MAX_TTL).await;
    let claims = claims(&client, 0..3);
    let mut first = Box::pin(client.ask(&claims[0]));
    let mut others = Box::pin(ask(&client, &claims[1..]));
    // Both have joined, and nothing has left.
    assert!(is_pending(first.as_mut()).await);
    assert!(is_pending(others.as_mut()).await);
    drop(first);
    assert_eq!(granted(&others.await), 2);
    assert!(!server.keys().contains(&"k0".to_owned()), "nobody waits for it any more");
}

/// One of several keys is not the user's: the server refuses the request that names it, and not what the others ask
/// for.
#[tokio::test]
async fn what_one_may_not_do_harms_no_other() {
    let server = voting_server(MAX_TTL).await;
    server.command(&["ACL", "SETUSER", "default", "resetkeys", "~k*", "~{k*", "~lock:voter"]);
    let client = Client::of(&server, MAX_TTL).await;
    let mut claims = claims(&client, 0..3);
    claims[1] = client.claim("other", MAX_TTL);
    let answers = ask(&client, &claims).await;
    assert_eq!(granted(&answers), 2, "{answers:?}");
    let error = answers[1].as_ref().expect_err("it is not allowed");
    assert!(error.to_string().contains("lacks a permission"), "{error}");
}
