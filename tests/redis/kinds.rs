//! Readers, permits, several keys and fencing tokens, step by step.

use std::time::Duration;

use lock_core::LockErrorKind;
use lock_core::backend::{
    Ask, Attempt, Backend, Claim, FencingToken, Heartbeat, Mode, Queue, Released, Renew, Renewal,
};
use lock_core::key::Key;
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::store::{Process, Told, all_expire, holds, names_both, queue, token};
use crate::support::{LONG, ms};

const SHARED: Mode = Mode::Shared;

fn reader(process: &Process, key: &str) -> Claim {
    process.claim(key, SHARED, Queue::Fifo)
}

fn permit(process: &Process, key: &str, of: u32) -> Claim {
    process.claim(key, Mode::Permit { of }, Queue::Fifo)
}

async fn start() -> (RedisServer, Process) {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    (server, process)
}

#[tokio::test]
async fn readers_are_together_and_a_writer_alone() {
    let (server, process) = start().await;
    let (one, other, writer) = (reader(&process, "k"), reader(&process, "k"), process.fifo("k"));
    process.take(&one).await;
    process.take(&other).await;
    process.take(&one).await;
    assert_eq!(server.get::<i64>(&["ZCARD", "k"]), 3, "each once, and the mark of the mode");
    let held = process.refused(&writer).await;
    assert!(held.remaining.is_some_and(|left| left > ms(50_000)) && held.holder.is_some(), "{held:?}");
    let foreign = server.command(&["SET", "k", "6f7c0e7a", "NX", "PX", "60000"]);
    assert_eq!(foreign, redis::Value::Nil, "clients of other languages are excluded");
    all_expire(&server);
    assert_eq!(process.release(&one).await, Released::Released);
    assert_eq!(process.release(&one).await, Released::Expired);
    process.refused(&writer).await;
    assert_eq!(process.release(&other).await, Released::Released);
    process.take(&writer).await;
    process.refused(&reader(&process, "k")).await;
    process.release(&writer).await;
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_dead_reader_never_outlives_its_own_lease() {
    let (server, process) = start().await;
    let (mut dead, alive, writer) = (reader(&process, "k"), reader(&process, "k"), process.fifo("k"));
    dead.ttl = ms(400);
    process.take(&dead).await;
    process.take(&alive).await;
    assert_eq!(process.renewed(&alive, LONG).await, Some(0));
    tokio::time::sleep(ms(450)).await;
    assert!(matches!(process.renew(&dead, LONG).await, Renewal::NotOwned));
    assert_eq!(process.release(&dead).await, Released::Expired);
    process.refused(&writer).await;
    process.release(&alive).await;
    process.take(&writer).await;
    process.release(&writer).await;
    // The key is deleted when the lease of the last reader expires.
    process.take(&dead).await;
    wait_until("it ends by itself", PATIENCE, async || server.keys().is_empty()).await;
}

#[tokio::test]
async fn a_renewal_of_a_reader_never_shortens_it() {
    let (server, process) = start().await;
    let (one, other) = (reader(&process, "k"), reader(&process, "k"));
    process.take(&one).await;
    process.take(&other).await;
    let score = |claim: &Claim| {
        let members: Vec<(String, f64)> = server.get(&["ZRANGE", "k", "0", "-2", "WITHSCORES"]);
        let of_claim = members.into_iter().find(|(member, _)| member.starts_with(&token(claim)));
        of_claim.expect("it holds").1
    };
    let (before, others) = (score(&one), score(&other));
    process.renewed(&one, ms(500)).await;
    assert_eq!(score(&one), before);
    process.renewed(&one, 2 * LONG).await;
    assert!(score(&one) > before + 50_000.0);
    assert_eq!(score(&other), others);
    assert!(server.get::<i64>(&["PTTL", "k"]) > 100_000);
    // The key lives as long as its longest holder.
    process.renewed(&other, LONG + ms(20_000)).await;
    assert!(server.get::<i64>(&["PTTL", "k"]) > 100_000);
}

#[tokio::test]
async fn a_waiting_writer_goes_before_later_readers() {
    let (server, process) = start().await;
    let (first, writer) = (reader(&process, "k"), process.fifo("k"));
    let late = [reader(&process, "k"), reader(&process, "k")];
    process.take(&first).await;
    process.wait(&writer).await;
    process.refused(&late[0]).await;
    process.refused(&process.claim("k", SHARED, Queue::Barging)).await;
    for late in &late {
        process.wait(late).await;
        process.waits(late).await;
    }
    process.release(&first).await;
    process.is_told(&Told::Granted(writer.owner, 2)).await;
    assert!(holds(&server, "k", &writer));
    // Both readers are served at once after the release.
    process.release(&writer).await;
    process.is_told(&Told::Granted(late[0].owner, 1)).await;
    process.is_told(&Told::Granted(late[1].owner, 0)).await;
    for late in &late {
        process.served(late).await;
        assert_eq!(process.release(late).await, Released::Released);
    }
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn readers_behind_a_writer_that_gives_up_are_served() {
    let (_server, process) = start().await;
    let (first, writer, late) = (reader(&process, "k"), process.fifo("k"), reader(&process, "k"));
    process.take(&first).await;
    process.wait(&writer).await;
    process.wait(&late).await;
    process.release(&writer).await;
    process.is_told(&Told::Granted(late.owner, 0)).await;
    process.served(&late).await;
}

#[tokio::test]
async fn as_many_as_there_are_permits_and_in_order() {
    let (server, process) = start().await;
    let claims: Vec<_> = (0..5).map(|_| permit(&process, "k", 2)).collect();
    for claim in &claims[..2] {
        process.take(claim).await;
    }
    for claim in &claims[2..] {
        process.wait(claim).await;
    }
    process.release(&claims[1]).await;
    process.is_told(&Told::Granted(claims[2].owner, 2)).await;
    assert_eq!(process.told().len(), 1);
    process.release(&claims[0]).await;
    process.is_told(&Told::Granted(claims[3].owner, 1)).await;
    assert_eq!(process.release(&claims[0]).await, Released::Taken, "no room for it any more");
    for claim in &claims[2..] {
        process.served(claim).await;
        process.release(claim).await;
    }
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn kinds_with_nothing_in_common_are_refused_by_name() {
    let (server, process) = start().await;
    let refused = async |claim: &Claim, in_force: &str, asked: &str| {
        for queued in [false, true] {
            let answer = match queued {
                false => process.redis.acquire(claim, Ask::Try).await,
                true => process.redis.acquire(claim, Ask::Enqueue { room: None }).await,
            };
            names_both(&answer.expect_err("it is in use as another kind"), in_force, asked);
        }
        assert_eq!(queue(&server, claim.key.as_str()), (0, 0));
    };
    let held = permit(&process, "p", 3);
    process.take(&held).await;
    refused(&permit(&process, "p", 4), "a semaphore of 3 permits", "a semaphore of 4 permits").await;
    let error = process.redis.acquire(&permit(&process, "p", 4), Ask::Try).await.expect_err("another number");
    assert!(error.to_string().contains("once the old permits are released"), "the way out: {error}");
    refused(&process.fifo("p"), "a semaphore of 3 permits", "an exclusive lock").await;
    refused(&reader(&process, "p"), "a semaphore of 3 permits", "a shared lock").await;
    let exclusive = process.fifo("x");
    process.take(&exclusive).await;
    refused(&permit(&process, "x", 3), "an exclusive lock", "a semaphore of 3 permits").await;
    process.take(&reader(&process, "s")).await;
    refused(&permit(&process, "s", 3), "a shared lock", "a semaphore of 3 permits").await;
    process.release(&held).await;
    process.take(&process.fifo("p")).await;
}

#[tokio::test]
async fn other_data_is_left_alone_by_every_kind() {
    let (server, process) = start().await;
    server.command(&["LPUSH", "list", "a"]);
    server.command(&["ZADD", "set", "1", "a"]);
    for key in ["list", "set"] {
        for mode in [Mode::Exclusive, SHARED, Mode::Permit { of: 2 }] {
            let claim = process.claim(key, mode, Queue::Fifo);
            for answer in [
                process.redis.acquire(&claim, Ask::Try).await,
                process.redis.acquire(&claim, Ask::Enqueue { room: None }).await,
            ] {
                assert_eq!(answer.expect_err("other data").kind(), LockErrorKind::InvalidRequest);
            }
            assert_eq!(process.release(&claim).await, Released::Taken);
            assert!(matches!(process.renew(&claim, LONG).await, Renewal::NotOwned));
        }
    }
    assert_eq!(server.keys(), ["list", "set"]);
}

#[tokio::test]
async fn a_writer_becomes_a_reader_and_lets_the_readers_in() {
    let (server, process) = start().await;
    let mut writer = process.claim("k", Mode::Exclusive, Queue::Barging);
    let (late, other) = (reader(&process, "k"), process.fifo("k"));
    process.take(&writer).await;
    process.wait(&late).await;
    process.wait(&other).await;
    for waiters in [1, 1] {
        match process.redis.downgrade(&writer).await {
            Renewal::Renewed { waiters: told, .. } => assert_eq!(told, Some(waiters)),
            other => panic!("not shared: {other:?}"),
        }
    }
    process.is_told(&Told::Granted(late.owner, 1)).await;
    // This renewal and this release do not know of the downgrade yet.
    process.renewed(&writer, 2 * LONG).await;
    process.served(&late).await;
    process.waits(&other).await;
    writer.mode = SHARED;
    process.take(&writer).await;
    process.renewed(&writer, 2 * LONG).await;
    all_expire(&server);
    assert_eq!(process.release(&late).await, Released::Released);
    writer.mode = Mode::Exclusive;
    assert_eq!(process.release(&writer).await, Released::Released);
    process.served(&other).await;
    assert!(matches!(process.redis.downgrade(&writer).await, Renewal::NotOwned));
}

fn all(process: &Process, keys: &[&str]) -> Claim {
    let mut claim = process.barging(keys[0]);
    claim.more = keys[1..].iter().map(|key| Key::new(key).expect("a key")).collect();
    claim
}

#[tokio::test]
async fn several_keys_are_all_held_or_none() {
    let (server, process) = start().await;
    let (one, every) = (process.fifo("b"), all(&process, &["a", "b", "c"]));
    process.take(&one).await;
    let held = process.refused(&every).await;
    assert!(held.holder.is_some() && held.remaining.is_some() && held.queued_at.is_none());
    let not_queued = process.enqueue(&every, None).await;
    assert!(not_queued.queued_at.is_none());
    assert_eq!(server.keys(), ["b"], "none was taken");
    process.release(&one).await;
    process.take(&every).await;
    for key in ["a", "b", "c"] {
        process.refused(&process.fifo(key)).await;
    }
    // If one of the keys is lost, the whole lock is lost.
    process.renewed(&every, 2 * LONG).await;
    assert!(["a", "b", "c"].iter().all(|key| server.get::<i64>(&["PTTL", key]) > 100_000));
    server.command(&["DEL", "b"]);
    assert!(matches!(process.renew(&every, LONG).await, Renewal::NotOwned));
    process.take(&every).await;
    assert_eq!(process.release(&every).await, Released::Released);
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn several_keys_overtake_nobody() {
    let (server, process) = start().await;
    let (holder, waiter, every) = (process.fifo("b"), process.fifo("b"), all(&process, &["a", "b"]));
    process.take(&holder).await;
    process.wait(&waiter).await;
    server.command(&["DEL", "b"]);
    process.refused(&every).await;
    assert!(holds(&server, "b", &waiter));
    process.is_told(&Told::Granted(waiter.owner, 0)).await;
}

#[tokio::test]
async fn grants_of_one_owner_become_one() {
    let (server, process) = start().await;
    let (other, every) = (Process::of(&server).await, all(&process, &["a", "b"]));
    let holder = other.fifo("b");
    other.take(&holder).await;
    let single = |key: &str| {
        let mut claim = every.clone();
        (claim.key, claim.more) = (Key::new(key).expect("a key"), [].into());
        claim
    };
    process.take(&single("a")).await;
    process.wait(&single("b")).await;
    process.refused(&every).await;
    other.release(&holder).await;
    assert!(server.get::<i64>(&["PTTL", "b"]) <= 2_000, "by its place");
    process.take(&every).await;
    assert!(server.get::<i64>(&["PTTL", "b"]) > 50_000, "for the whole lease");
    process.take(&every).await;
    assert_eq!(process.release(&every).await, Released::Released);
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn several_keys_keep_their_names_in_an_error() {
    let (_server, process) = start().await;
    process.take(&permit(&process, "b", 3)).await;
    let answer = process.redis.acquire(&all(&process, &["a", "b"]), Ask::Try).await;
    names_both(&answer.expect_err("another kind"), "a semaphore of 3 permits", "an exclusive lock");
}

#[tokio::test]
async fn fencing_tokens_grow_over_turns_and_keys_and_owners() {
    let (server, process) = start().await;
    let mut first = process.barging("k");
    process.take(&first).await;
    let one = process.redis.fence(&first).await.expect("it holds");
    assert_eq!(process.redis.fence(&first).await.expect("it holds"), one, "asked again");
    first.handoffs = 1;
    let two = process.redis.fence(&first).await.expect("it holds");
    assert!(two > one);
    assert_eq!(process.redis.fence(&first).await.expect("it holds"), two);
    assert!(!first.is_fence_ahead());
    // The number is assigned in the process, and sent with the renewal and the release.
    let far = FencingToken::new(two.get() + 3_600_000_000);
    first.number_fence(far);
    process.renewed(&first, LONG).await;
    let stored: String = server.get(&["GET", "{k}:f"]);
    assert!(stored.starts_with(&far.to_string()), "{stored}");
    first.number_fence(FencingToken::new(far.get() + 1));
    process.release(&first).await;
    let mut next = process.fifo("k");
    next.fencing = true;
    let grant = process.take(&next).await;
    assert_eq!(grant.fence.map(FencingToken::get), Some(far.get() + 2));
    assert!(next.is_fence_ahead(), "of the clock of the server");
    assert_eq!(process.take(&next).await.fence, grant.fence);
    next.handoffs = 1;
    next.number_fence(FencingToken::new(far.get() + 10));
    let later = process.redis.fence(&next).await.expect("it holds");
    assert_eq!(later.get(), far.get() + 11, "larger than the last that was numbered here");
    process.release(&next).await;
    // All keys of a lock have the same number.
    let mut every = all(&process, &["a", "k"]);
    every.fencing = true;
    let grant = process.take(&every).await;
    assert_eq!(grant.fence.map(FencingToken::get), Some(later.get() + 1));
    assert_eq!(process.take(&every).await.fence, grant.fence);
    assert_eq!(process.redis.fence(&every).await.ok(), grant.fence);
    process.release(&every).await;
    let other = process.redis.fence(&every).await.expect_err("it was given back");
    assert!(other.is_lost());
    let mut shared = reader(&process, "a");
    shared.fencing = true;
    assert!(process.take(&shared).await.fence > grant.fence);
    assert!(process.redis.fence(&shared).await.is_ok());
    assert!(process.redis.fence(&reader(&process, "a")).await.expect_err("not a holder").is_lost());
}

#[tokio::test]
async fn kept_keys_stay_taken_in_every_mode() {
    let (server, process) = start().await;
    for mode in [Mode::Exclusive, SHARED, Mode::Permit { of: 1 }] {
        let (claim, other) = (process.claim("k", mode, Queue::Fifo), process.claim("k", mode, Queue::Fifo));
        process.take(&claim).await;
        for _ in 0..2 {
            let kept = process.redis.release(&claim, Some(ms(400))).await.expect("an answer");
            assert_eq!(kept, Released::Released, "{mode:?}");
        }
        assert_eq!(process.release(&claim).await, Released::Released, "it is not freed: {mode:?}");
        assert!(matches!(process.renew(&claim, LONG).await, Renewal::NotOwned), "{mode:?}");
        match mode {
            Mode::Shared => drop(process.refused(&process.fifo("k")).await),
            _ => drop(process.refused(&other).await),
        }
        wait_until("it ends", PATIENCE, async || server.keys().is_empty()).await;
    }
    let every = all(&process, &["a", "b"]);
    process.take(&every).await;
    let kept = process.redis.release(&every, Some(ms(400))).await.expect("an answer");
    assert_eq!((kept, server.keys().len()), (Released::Released, 2));
    // The cancel of a claim that only waits removes it from the queue.
    let (holder, waiter) = (process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&waiter).await;
    process.redis.release(&waiter, Some(LONG)).await.expect("an answer");
    assert_eq!(queue(&server, "k"), (0, 0));
}

#[tokio::test]
async fn a_batch_of_every_kind_is_renewed_at_once() {
    let (server, process) = start().await;
    let claims = [
        process.fifo("x"),
        reader(&process, "s"),
        permit(&process, "p", 2),
        all(&process, &["a", "b"]),
        process.fifo("free"),
    ];
    for claim in &claims[..4] {
        process.take(claim).await;
    }
    claims[1].number_fence(FencingToken::new(7));
    claims[3].number_fence(FencingToken::new(8));
    let batch: Vec<_> = claims.iter().map(|claim| Renew { claim, ttl: 2 * LONG }).collect();
    let answers = process.redis.renew(&batch).await;
    assert_eq!(answers.len(), 5);
    for (number, answer) in answers.iter().enumerate() {
        let renewed = matches!(answer, Renewal::Renewed { waiters: Some(0), .. });
        assert_eq!(renewed, number < 4, "{number}: {answer:?}");
    }
    assert!(matches!(answers[4], Renewal::NotOwned));
    assert_eq!(server.keys(), ["a", "b", "p", "s", "x", "{a}:f", "{b}:f", "{s}:f"]);
    assert!(server.get::<String>(&["GET", "{b}:f"]).starts_with("8 "));
    assert!(server.keys()[..5].iter().all(|key| server.get::<i64>(&["PTTL", key]) > 100_000));
}

#[tokio::test]
async fn readers_and_their_queue_need_no_memory_to_end() {
    let server = RedisServer::builder().config("maxmemory-policy", "noeviction").start();
    let process = Process::of(&server).await;
    let (one, other, waiter) = (reader(&process, "k"), reader(&process, "k"), process.fifo("k"));
    let mut kept = process.fifo("j");
    kept.ttl = Duration::from_secs(5);
    process.take(&one).await;
    process.take(&other).await;
    process.take(&kept).await;
    kept.number_fence(FencingToken::new(7));
    process.wait(&waiter).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error =
        process.redis.acquire(&process.fifo("k"), Ask::Enqueue { room: None }).await.expect_err("no memory");
    assert!(error.is_temporary() && error.to_string().contains("OOM"), "{error}");
    process.renewed(&other, 2 * LONG).await;
    process.renewed(&kept, LONG).await;
    assert_eq!(process.release(&kept).await, Released::Released);
    assert_eq!(process.release(&one).await, Released::Released);
    assert_eq!(process.redis.release(&other, Some(ms(50))).await.expect("an answer"), Released::Released);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("the next is served", PATIENCE, async || {
        matches!(process.heartbeat(&waiter).await, Heartbeat::Granted(_))
    })
    .await;
    let again = process.redis.acquire(&waiter, Ask::Try).await.expect("an answer");
    assert!(matches!(again, Attempt::Granted(_)));
}
