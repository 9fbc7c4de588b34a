//! Requests of many tasks that leave as one call: the cost, and that each task gets what it would have got alone.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use lock_core::backend::{Ask, Attempt, Backend, Claim, Mode, Released};
use lock_core::clock::Clock;
use lock_core::strategy::{self, Backoff};
use lock_core::testkit::history::{History, Hold};
use lock_core::{LockError, LockErrorKind, LockGuard, LockManager, Release};
use lock_tests::{Bound, Flow, PATIENCE, Proxy, RedisServer, SentCommand, monotonic, wait_until};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::durability::pair;
use crate::load::disturb;
use crate::store::{Process, token};
use crate::support::{LONG, calls, connect, cycle, empty, ms, try_once};

/// Far more than have to be under way for requests to leave together.
const TASKS: usize = 200;

/// Runs all futures, each in a task of its own, and returns what came of them in their order.
async fn together<T: Send + 'static>(
    futures: impl IntoIterator<Item: Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut tasks = JoinSet::new();
    for (number, future) in futures.into_iter().enumerate() {
        tasks.spawn(async move { (number, future.await) });
    }
    let sorted: BTreeMap<_, _> = tasks.join_all().await.into_iter().collect();
    sorted.into_values().collect()
}

async fn acquire(process: &Arc<Process>, claims: &[Arc<Claim>], ask: Ask) -> Vec<Result<Attempt, LockError>> {
    let ask = |claim: &Arc<Claim>| {
        let (process, claim) = (Arc::clone(process), Arc::clone(claim));
        async move { process.redis.acquire(&claim, ask).await }
    };
    together(claims.iter().map(ask).collect::<Vec<_>>()).await
}

async fn release(process: &Arc<Process>, claims: &[Arc<Claim>]) -> Vec<Released> {
    let release = |claim: &Arc<Claim>| {
        let (process, claim) = (Arc::clone(process), Arc::clone(claim));
        async move { process.release(&claim).await }
    };
    together(claims.iter().map(release).collect::<Vec<_>>()).await
}

/// Returns a process that waits for 200 answers also on a busy machine.
async fn patient(server: &RedisServer) -> Process {
    Process::at(&format!("{}?timeout=10s", server.url())).await
}

/// Returns the values of the keys `k0` to the last, with one command.
fn values(server: &RedisServer) -> Vec<Option<String>> {
    let keys: Vec<String> = (0..TASKS).map(|n| format!("k{n}")).collect();
    let command: Vec<&str> = std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
    server.get(&command)
}

/// Returns whether the claim holds the exclusive lock with this value.
fn holds(value: Option<&str>, claim: &Claim) -> bool {
    value.is_some_and(|value| value.starts_with(&token(claim)))
}

/// Returns how many locks the scripts of `sent` name beyond the first of each.
fn joined(sent: &[SentCommand]) -> usize {
    let scripts = sent.iter().filter(|command| command.name == "EVALSHA");
    scripts
        .map(|command| command.arguments[1].parse::<usize>().expect("a number of keys").saturating_sub(1))
        .sum()
}

#[tokio::test]
async fn many_requests_leave_in_few_commands() {
    const CYCLES: usize = 10;
    let server = RedisServer::start();
    let locks = connect(&format!("{}?timeout=10s", server.url())).await;
    cycle(&locks, "warm").await;
    let mut record = server.record();
    let work = |number: usize| {
        let locks = locks.clone();
        async move {
            for _ in 0..CYCLES {
                cycle(&locks, &format!("k{number}")).await;
            }
        }
    };
    together((0..TASKS).map(work)).await;
    let sent = record.take().iter().filter(|sent| ["SET", "EVALSHA"].contains(&&*sent.name)).count();
    assert!(sent * 4 < 2 * CYCLES * TASKS, "{sent} commands for {TASKS} tasks of {CYCLES} cycles");
    assert!(server.keys().is_empty());
}

/// Few tasks gain nothing from a script, and a cycle stays at one SET and one release.
#[tokio::test]
async fn few_requests_leave_by_themselves() {
    let server = RedisServer::start();
    let locks = connect(&format!("{}?timeout=10s", server.url())).await;
    let mut record = server.record();
    let work = |number: usize| {
        let locks = locks.clone();
        async move { cycle(&locks, &format!("k{number}")).await }
    };
    together((0..20).map(work)).await;
    let sent = record.take();
    assert_eq!((joined(&sent), sent.iter().filter(|sent| sent.name == "SET").count()), (0, 20));
}

#[tokio::test]
async fn each_lock_has_its_own_answer_and_a_waiter_gets_the_key_in_the_release() {
    let server = RedisServer::start();
    let (process, other) = (Arc::new(patient(&server).await), Arc::new(patient(&server).await));
    let claims: Vec<_> = (0..TASKS).map(|n| Arc::new(process.barging(&format!("k{n}")))).collect();
    let (mut taken, mut waiters) = (Vec::new(), Vec::new());
    for n in (0..TASKS).step_by(3) {
        let holder = Arc::new(other.barging(&format!("k{n}")));
        other.take(&holder).await;
        taken.push(holder);
    }
    let mut record = server.record();
    for ask in [Ask::Try, Ask::Probe] {
        let answers = acquire(&process, &claims, ask).await;
        assert!(joined(&record.take()) > TASKS / 2, "the test is about batches");
        for (n, answer) in answers.into_iter().enumerate() {
            match answer.expect("an answer") {
                Attempt::Granted(_) => assert!(n % 3 != 0, "k{n} is held"),
                Attempt::Held(held) if ask == Ask::Try => {
                    assert_eq!((n % 3, held.holder.is_some()), (0, true), "k{n}: {held:?}");
                }
                Attempt::Held(_) => {}
            }
        }
    }
    for ((n, claim), value) in claims.iter().enumerate().zip(values(&server)) {
        assert_eq!(holds(value.as_deref(), claim), n % 3 != 0, "k{n}: {value:?}");
    }
    // A place, and a grant by it, last for two seconds without a heartbeat: there is little between here and the end.
    for n in (1..TASKS).step_by(3) {
        let waiter = Arc::new(other.barging(&format!("k{n}")));
        other.wait(&waiter).await;
        waiters.push(waiter);
    }
    record.take();
    let answers = release(&process, &claims).await;
    let (held, keys, sent) = (values(&server), server.keys(), record.take());
    let theirs = [&taken[..], &waiters[..]].concat();
    let freed = release(&other, &theirs).await;
    assert!(joined(&sent) > TASKS / 2, "the test is about batches");
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if n % 3 == 0 { Released::Taken } else { Released::Released }, "k{n}");
    }
    let (of_taken, of_waiters) = ((0..TASKS).step_by(3), (1..TASKS).step_by(3));
    for (n, claim) in of_taken.chain(of_waiters).zip(&theirs) {
        assert!(holds(held[n].as_deref(), claim), "k{n}: {:?}", held[n]);
    }
    assert_eq!(keys.iter().filter(|key| !key.starts_with('{')).count(), theirs.len());
    assert!(freed.iter().all(|answer| *answer == Released::Released), "{freed:?}");
    // Who releases twice is told that nobody holds it.
    assert!(release(&process, &claims).await.iter().all(|answer| *answer == Released::Expired));
}

#[tokio::test]
async fn other_data_and_a_missing_permission_concern_one_lock() {
    let server = RedisServer::start();
    server.command(&["RPUSH", "shop:k7", "other data"]);
    server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~shop:*", "~{shop:*", "&*", "+@all"]);
    let process = Arc::new(Process::at(&format!("{}?timeout=10s", server.url_for("app", "pw"))).await);
    let mut claims: Vec<_> = (0..TASKS).map(|n| Arc::new(process.barging(&format!("shop:k{n}")))).collect();
    claims[TASKS - 9] = Arc::new(process.barging("elsewhere"));
    // A batch of whose keys one may not be written is refused as a whole. So the first ones get further than those.
    let mut record = server.record();
    let answers = acquire(&process, &claims, Ask::Try).await;
    assert!(joined(&record.take()) > TASKS / 2, "the test is about batches");
    for (n, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(Attempt::Granted(_)) => assert!(n != 7 && n != TASKS - 9, "{n}"),
            Ok(Attempt::Held(held)) => panic!("{n}: {held:?}"),
            Err(error) => {
                let expected = match n {
                    7 => (LockErrorKind::InvalidRequest, "WRONGTYPE"),
                    _ => (LockErrorKind::Unavailable, "NOPERM"),
                };
                assert_eq!(error.kind(), expected.0, "{n}: {error}");
                assert!(error.to_string().contains(expected.1), "{n}: {error}");
            }
        }
    }
    claims.remove(TASKS - 9);
    let answers = release(&process, &claims).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, if n == 7 { Released::Taken } else { Released::Released }, "{n}");
    }
    assert_eq!(server.keys(), ["shop:k7"]);
}

#[tokio::test]
async fn a_token_comes_with_the_grant_and_grows_whatever_was_remembered() {
    let server = RedisServer::start();
    let process = Arc::new(patient(&server).await);
    let fenced = |n: usize| {
        let mut claim = process.barging(&format!("k{n}"));
        claim.fencing = true;
        Arc::new(claim)
    };
    let last = |n: usize| server.get::<Option<String>>(&["GET", &format!("{{k{n}}}:f")]);
    // Later than any time of the server here; earlier, by the last of several holders of one grant; no token; no text.
    let (later, owner) = (9_000_000_000_000_000_u64, "0".repeat(48));
    server.command(&["SET", "{k191}:f", &format!("{later} {owner}"), "PX", "60000"]);
    server.command(&["SET", "{k192}:f", &format!("1763672000123456 {owner}:3"), "PX", "60000"]);
    server.command(&["SET", "{k193}:f", "other data"]);
    server.command(&["RPUSH", "{k194}:f", "other data"]);
    let mut before = vec![0; TASKS];
    for round in 0..3 {
        let claims: Vec<_> = (0..TASKS).map(fenced).collect();
        let mut record = server.record();
        let answers = acquire(&process, &claims, Ask::Probe).await;
        assert!(joined(&record.take()) > TASKS / 2, "the test is about batches");
        for (n, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(Attempt::Granted(grant)) => {
                    let token = grant.fence.expect("it was asked for").get();
                    assert!(token > before[n] && claims[n].is_fenced(), "k{n}: {token} after {}", before[n]);
                    assert_eq!(n == 191, token >= later, "k{n}: {token}");
                    assert_eq!(
                        last(n),
                        Some(format!("{token} {}", claims[n].owner.token().as_str())),
                        "k{n}"
                    );
                    before[n] = token;
                }
                Ok(Attempt::Held(held)) => panic!("k{n}: {held:?}"),
                Err(error) => {
                    assert_eq!(
                        (error.kind(), n == 193 || n == 194),
                        (LockErrorKind::InvalidRequest, true),
                        "{error}"
                    );
                    assert!(!server.keys().contains(&format!("k{n}")), "no lock without its token");
                }
            }
        }
        let answers = release(&process, &claims).await;
        for (n, answer) in answers.into_iter().enumerate() {
            let expected = if n == 193 || n == 194 { Released::Expired } else { Released::Released };
            assert_eq!(answer, expected, "k{n}, round {round}");
        }
    }
    assert_eq!(last(193).as_deref(), Some("other data"));
    assert_eq!(server.get::<u64>(&["LLEN", "{k194}:f"]), 1);
    // A refused step makes no token.
    let (holder, late) = (process.barging("k0"), fenced(0));
    process.take(&holder).await;
    let (remembered, mut claims) = (last(0), (1..TASKS).map(fenced).collect::<Vec<_>>());
    claims.push(late);
    let answers = acquire(&process, &claims, Ask::Probe).await;
    assert!(matches!(answers.last(), Some(Ok(Attempt::Held(_)))));
    assert_eq!(last(0), remembered);
}

/// A grant that needs copies is confirmed by itself, and a release that keeps its key is another script.
#[tokio::test]
async fn what_needs_more_than_a_batch_does_stays_out() {
    let (primary, _replica) = pair().await;
    let url = format!("{}?durability=replicas(1)&timeout=10s", primary.url());
    let process = Arc::new(Process::at(&url).await);
    let claims: Vec<_> = (0..TASKS).map(|n| Arc::new(process.barging(&format!("k{n}")))).collect();
    let mut record = primary.record();
    assert!(acquire(&process, &claims, Ask::Probe).await.iter().all(Result::is_ok));
    assert_eq!(joined(&record.take()), 0, "acquires that need copies");
    let keep = |claim: &Arc<Claim>| {
        let (process, claim) = (Arc::clone(&process), Arc::clone(claim));
        async move { process.redis.release(&claim, Some(ms(1))).await.expect("an answer") }
    };
    let (kept, freed) = claims.split_at(TASKS / 2);
    let answers = together(kept.iter().map(keep).collect::<Vec<_>>()).await;
    assert!(answers.iter().all(|answer| *answer == Released::Released));
    assert_eq!(joined(&record.take()), 0, "releases that keep their keys");
    assert!(release(&process, freed).await.iter().all(|answer| *answer == Released::Released));
    assert!(joined(&record.take()) > 0, "a release needs no copies");
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_is_sent_them_again() {
    let server = RedisServer::start();
    let process = Arc::new(patient(&server).await);
    let claims: Vec<_> = (0..TASKS).map(|n| Arc::new(process.barging(&format!("k{n}")))).collect();
    let mut record = server.record();
    server.command(&["SCRIPT", "FLUSH"]);
    let answers = acquire(&process, &claims, Ask::Probe).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Attempt::Granted(_)))));
    server.command(&["SCRIPT", "FLUSH"]);
    assert!(release(&process, &claims).await.iter().all(|answer| *answer == Released::Released));
    assert!(joined(&record.take()) > TASKS, "the test is about batches");
}

#[tokio::test]
async fn a_server_without_memory_refuses_each_by_itself_and_none_is_told_that_its_key_is_held() {
    let server = RedisServer::start();
    let process = Arc::new(patient(&server).await);
    let claims: Vec<_> = (0..TASKS).map(|n| Arc::new(process.barging(&format!("k{n}")))).collect();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let mut record = server.record();
    for answer in acquire(&process, &claims, Ask::Probe).await {
        let error = answer.map(drop).expect_err("there is no memory");
        assert!(error.is_temporary() && error.to_string().contains("OOM"), "{error}");
    }
    assert!(joined(&record.take()) > TASKS / 2, "the test is about batches");
    assert!(server.keys().is_empty());
}

/// The same release twice in one batch frees the key once, and changes nothing for the rest.
#[tokio::test]
async fn a_release_that_is_repeated_concerns_one_lock() {
    let server = RedisServer::start();
    let process = Arc::new(patient(&server).await);
    let mut claims: Vec<_> = (0..TASKS).map(|n| Arc::new(process.barging(&format!("k{n}")))).collect();
    assert!(acquire(&process, &claims, Ask::Probe).await.iter().all(Result::is_ok));
    claims.insert(TASKS - 20, Arc::clone(&claims[TASKS - 20]));
    let mut record = server.record();
    for (n, answer) in release(&process, &claims).await.into_iter().enumerate() {
        assert!(answer == Released::Released || n == TASKS - 20 || n == TASKS - 19, "{n}: {answer:?}");
    }
    let sent = record.take();
    let batch = sent.iter().find(|sent| sent.arguments.iter().filter(|word| *word == "k180").count() == 2);
    assert!(batch.is_some(), "the test is about one batch: {sent:?}");
    assert!(server.keys().is_empty());
}

/// The task that sends a batch may be stuck behind one that blocks its thread. Who joined the batch meanwhile is served
/// all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_blocked_keeps_nobody_who_joined_waiting() {
    let server = RedisServer::start();
    let process = Arc::new(patient(&server).await);
    // Without answers, many stay under way.
    server.stop();
    let (asking, asked) = (Arc::clone(&process), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&asked);
    let work = move |n: usize| {
        let (process, asked) = (Arc::clone(&asking), Arc::clone(&counter));
        async move {
            let claim = process.barging(&format!("k{n}"));
            asked.fetch_add(1, Ordering::Relaxed);
            process.redis.acquire(&claim, Ask::Probe).await
        }
    };
    let crowd = tokio::spawn(together((0..TASKS).map(work).collect::<Vec<_>>()));
    wait_until("they ask", PATIENCE, async || asked.load(Ordering::Relaxed) == TASKS).await;
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let (asked, is_blocked) = tokio::sync::oneshot::channel();
    let (first, asking) = (process.barging("first"), Arc::clone(&process));
    let blocker = tokio::spawn(async move {
        let (mut asking, mut asked) = (std::pin::pin!(asking.redis.acquire(&first, Ask::Probe)), Some(asked));
        std::future::poll_fn(move |cx| {
            let is_pending = asking.as_mut().poll(cx).is_pending();
            asked.take().map(|asked| asked.send(is_pending)).expect("polled once").expect("it is awaited");
            // Whatever runs on this thread next waits as well.
            Poll::Ready(blocked.recv_timeout(2 * PATIENCE))
        })
        .await
    });
    assert!(is_blocked.await.expect("it asks"), "it waits for an answer");
    let (second, asking) = (process.barging("second"), Arc::clone(&process));
    let mut joining = Box::pin(async move { asking.redis.acquire(&second, Ask::Probe).await });
    assert!(joining.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    server.cont();
    let answer = timeout(PATIENCE, joining).await;
    assert!(matches!(answer, Ok(Ok(Attempt::Granted(_)))), "{answer:?}");
    unblock.send(()).expect("it is blocked");
    blocker.await.expect("no panic").expect("it was blocked until now");
    assert!(crowd.await.expect("no panic").iter().all(Result::is_ok));
}

/// Each step fails by its own deadline, although all wait for one answer, and every lock is released afterwards.
#[tokio::test]
async fn an_answer_that_does_not_come_fails_each_task_at_its_own_deadline() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let locks = connect(&format!("{}?timeout=400ms", proxy.url())).await;
    cycle(&locks, "warm").await;
    let mut record = server.record();
    proxy.replies(Flow::Hold);
    let asked = monotonic();
    let ask = |n: usize| {
        // The deadline of a call is half of its lease.
        let ttl = if n.is_multiple_of(2) { ms(200) } else { LONG };
        let request = locks.lock(format!("k{n}")).ttl(ttl).strategy(strategy::fail_fast());
        async move {
            let error = request.acquire().await.map(drop).expect_err("no answer").to_string();
            (error, monotonic() - asked)
        }
    };
    let errors = together((0..TASKS).map(ask)).await;
    for (n, (error, after)) in errors.iter().enumerate() {
        let deadline = if n.is_multiple_of(2) { ms(100) } else { ms(400) };
        assert!(
            error.contains(&format!("within {deadline:?}; the request may have been executed")),
            "k{n}: {error}"
        );
        // It counts from the first step of the batch.
        assert!(*after + ms(20) >= deadline, "k{n}: after {after:?}");
    }
    assert!(joined(&record.take()) > TASKS / 2, "the test is about batches");
    proxy.heal();
    empty(&server, PATIENCE).await;
}

/// The server executes no acquire of a batch whose tasks have given up by then.
#[tokio::test]
async fn a_batch_that_arrives_late_takes_no_key() {
    let server = RedisServer::start();
    for fencing in [false, true] {
        // A busy machine may take so long that the connection is given up, and its requests with it.
        let (over, mut arrived) = (Bound::new(PATIENCE), false);
        while !arrived {
            over.check("a batch that arrives");
            arrived = late_batch(&server, fencing).await;
        }
    }
}

/// Holds 200 requests until they are late. Returns whether batches arrived, none of which took a key.
async fn late_batch(server: &RedisServer, fencing: bool) -> bool {
    server.command(&["FLUSHALL"]);
    let proxy = Proxy::before(server);
    let process = Arc::new(Process::at(&format!("{}?timeout=200ms", proxy.url())).await);
    let claim = |n: usize| {
        let mut claim = process.barging(&format!("k{n}"));
        claim.fencing = fencing;
        Arc::new(claim)
    };
    let claims: Vec<_> = (0..TASKS).map(claim).collect();
    server.command(&["CONFIG", "RESETSTAT"]);
    let mut record = server.record();
    proxy.requests(Flow::Hold);
    let answers = acquire(&process, &claims, Ask::Probe).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(LockError::is_temporary)));
    // The client's estimate of the server's clock is ahead by the time that its dial took.
    sleep(ms(300)).await;
    proxy.heal();
    // Behind the others, if it goes over the same connection.
    while process.redis.inspect(&claims[0].key).await.is_err() {}
    let (joined, sets) = (joined(&record.take()), calls(server, "set"));
    // The first ones were sent by themselves. A plain SET has no deadline.
    assert!(sets < 60, "{joined} in batches, {sets} times SET");
    joined > TASKS / 2
}

type Asking = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// Futures that are dropped before their batch leaves, while it is on its way, and after it was answered. Every second
/// one goes on, and gets its lock.
#[tokio::test]
async fn a_task_that_is_dropped_leaves_no_lock_and_disturbs_no_other() {
    for polls in 1..6 {
        let server = RedisServer::start();
        let locks = connect(&format!("{}?timeout=10s", server.url())).await;
        let ask = |n: usize| -> Asking {
            let locks = locks.clone();
            Box::pin(async move { try_once(&locks, &format!("k{n}")).await })
        };
        let mut asking: Vec<_> = (0..TASKS).map(ask).collect();
        let mut guards = Vec::new();
        for _ in 0..polls {
            asking.retain_mut(|future| match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    guards.push(answer.expect("the key is free"));
                    false
                }
            });
            if polls > 1 {
                tokio::task::yield_now().await;
            }
        }
        let rest = asking.into_iter().enumerate().filter(|(n, _)| n % 2 == 0).map(|(_, future)| future);
        guards.extend(together(rest).await.into_iter().map(|answer| answer.expect("the key is free")));
        assert!(guards.len() >= TASKS / 2);
        // The first ones did not join a batch. Of the others, half were dropped before theirs left.
        assert!(polls > 1 || calls(&server, "set") < 130, "{} times SET", calls(&server, "set"));
        for guard in guards {
            assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        }
        wait_until(&format!("no key after {polls} polls"), PATIENCE, async || {
            server.keys().is_empty() && locks.held() == 0
        })
        .await;
    }
}

/// Bodies end before their releases are answered, and a shutdown waits for these also where they leave together.
#[tokio::test]
async fn a_shutdown_waits_for_the_releases_of_a_batch() {
    let server = RedisServer::start();
    let locks = connect(&format!("{}?timeout=10s", server.url())).await;
    let mut record = server.record();
    let body = |n: usize| {
        let request = locks.lock(format!("k{n}")).ttl(LONG).release(Release::Background);
        async move { request.run(tokio::task::yield_now()).await.expect("the key is free") }
    };
    together((0..TASKS).map(body)).await;
    locks.shutdown(PATIENCE).await;
    assert!(server.keys().is_empty(), "{:?}", server.keys());
    assert!(joined(&record.take()) > TASKS / 2, "the test is about batches");
}

/// Two processes with more tasks than keys, on a network with faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_many_tasks_shows_one_holder_at_a_time_and_leaves_nothing() {
    const KEYS: usize = 90;
    const SPAN: Duration = Duration::from_secs(4);
    const ENOUGH: usize = 1_000;
    const LONGEST: Duration = Duration::from_secs(300);
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    let server = RedisServer::start();
    let mut record = server.record();
    let ways = [Proxy::before(&server), Proxy::before(&server)];
    let managers = [connect(&ways[0].url()).await, connect(&ways[1].url()).await];
    let (history, held) = (History::new(Clock::Suspend), Arc::new(AtomicUsize::new(0)));
    let work = |worker: usize| {
        let (locks, history, mut random) = (managers[worker % 2].clone(), history.clone(), random.fork());
        let held = Arc::clone(&held);
        async move {
            // On a busy machine it takes longer until the history shows something.
            while history.now() < SPAN || (held.load(Ordering::Relaxed) < ENOUGH && history.now() < LONGEST) {
                if turn(&locks, &history, worker, random.usize(..KEYS), &mut random).await {
                    held.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    let workers: Vec<_> = (0..2 * TASKS).map(work).collect();
    let (first, second) = (random.fork(), random.fork());
    tokio::select! {
        _ = together(workers) => {}
        () = disturb(&ways[0], ms(150), first) => unreachable!("it never ends"),
        () = disturb(&ways[1], ms(150), second) => unreachable!("it never ends"),
    }
    ways.iter().for_each(Proxy::heal);
    history.check().unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    let (holds, joined) = (history.holds().len(), joined(&record.take()));
    assert!(holds > 500 && joined > 100, "seed {seed}: {holds} holds, {joined} requests in batches");
    wait_until("no lock is left", PATIENCE, async || server.keys().iter().all(|key| key.ends_with(":f")))
        .await;
}

/// Acquires a key, perhaps with little patience, and releases it in one of several ways. Returns whether it was held.
async fn turn(locks: &LockManager, history: &History, worker: usize, key: usize, random: &mut Rng) -> bool {
    let key = format!("k{key}");
    let backoff = Backoff::exponential(ms(1), ms(8));
    let strategy = strategy::retry().within(PATIENCE).backoff(backoff);
    let request = locks.lock(&key).ttl(LONG).fencing(random.bool()).strategy(strategy);
    let patience = if random.u8(..4) == 0 { ms(random.u64(0..20)) } else { Duration::MAX };
    let asked = history.now();
    let guard = match timeout(patience, request.acquire()).await {
        Ok(Ok(guard)) => guard,
        Ok(Err(error)) => {
            assert!(error.is_temporary(), "{error}");
            return false;
        }
        Err(_) => return false,
    };
    let patience = if random.bool() { PATIENCE } else { ms(0) };
    let fence = timeout(patience, guard.fencing_token()).await.ok().and_then(Result::ok);
    let acquired = history.now();
    if random.bool() {
        sleep(ms(random.u64(0..3))).await;
    }
    let ended = history.now();
    guard.check().expect("no lease ends so soon");
    history.record(Hold { worker, key, mode: Mode::Exclusive, asked, acquired, ended, fence });
    match random.u8(..3) {
        0 => drop(guard),
        1 => drop(timeout(ms(random.u64(0..4)), guard.release()).await),
        _ => drop(guard.release().await),
    }
    true
}
