//! The queue of a lock, step by step.

use std::time::Duration;

use lock_core::backend::{Ask, Attempt, Backend, Claim, Mode, Queue};
use lock_core::{Kind, Released};
use lock_tests::{Flow, PATIENCE, Proxy, RedisServer, SentCommand, wait_until};

use crate::store::{Process, Told, all_expire, held, holds, kill_place, queue, token};
use crate::support::{LONG, calls, manager, ms};

#[tokio::test]
async fn a_release_wakes_the_next_and_nobody_else() {
    let server = RedisServer::start();
    let (holder, [a, b, c]) = (Process::of(&server).await, processes(&server).await);
    let held = holder.fifo("k");
    holder.take(&held).await;
    // A holder without waiters of its own process ignores the waiters elsewhere, and does not subscribe.
    assert!(holder.enqueue(&holder.barging("k"), None).await.own);
    let claims = [a.fifo("k"), b.fifo("k"), c.fifo("k")];
    for (at, (process, claim)) in [&a, &b, &c].into_iter().zip(&claims).enumerate() {
        let held = process.wait(claim).await;
        assert_eq!((held.position, held.waiters, held.own), (Some(at), Some(at), false));
        assert_eq!(held.holder.expect("a record").identity().pid(), std::process::id());
    }
    assert_eq!(holder.told(), [Told::Contended("k".to_owned())], "told once, by the first");
    assert_eq!(holder.release(&held).await, Released::Released);
    a.is_told(&Told::Granted(claims[0].owner, 2)).await;
    assert!(holds(&server, "k", &claims[0]));
    // The queue entry is granted for a short time. The grant is extended to the whole lease when its owner has
    // answered.
    assert!((1..=2_000).contains(&server.get::<i64>(&["PTTL", "k"])));
    assert_eq!(a.served(&claims[0]).await.waiters, Some(2));
    assert!(server.get::<i64>(&["PTTL", "k"]) > 50_000);
    assert_eq!(b.waits(&claims[1]).await.position, Some(0));
    assert_eq!(a.release(&claims[0]).await, Released::Released);
    b.is_told(&Told::Granted(claims[1].owner, 1)).await;
    assert_eq!((a.told().len(), b.told().len(), c.told().len()), (1, 1, 0));
    b.release(&claims[1]).await;
    c.is_told(&Told::Granted(claims[2].owner, 0)).await;
    c.release(&claims[2]).await;
    assert!(server.keys().is_empty(), "{:?}", server.keys());
}

async fn processes<const N: usize>(server: &RedisServer) -> [Process; N] {
    let mut processes = Vec::new();
    for _ in 0..N {
        processes.push(Process::of(server).await);
    }
    processes.try_into().expect("as many as were made")
}

#[tokio::test]
async fn what_nobody_told_is_found_by_a_sign_of_life() {
    let server = RedisServer::start();
    let process = Process::deaf(&server.url()).await;
    let [mut first, second, third] = [process.fifo("k"), process.fifo("k"), process.fifo("k")];
    first.ttl = ms(300);
    process.take(&first).await;
    process.wait(&second).await;
    process.wait(&third).await;
    // The lease has expired.
    wait_until("it is found", PATIENCE, async || {
        let _ = process.heartbeat(&third).await;
        holds(&server, "k", &second)
    })
    .await;
    // The notification was lost. The heartbeat reports the grant.
    process.served(&second).await;
    // A client in another language frees the key.
    server.command(&["DEL", "k"]);
    process.served(&third).await;
    assert!(holds(&server, "k", &third));
    process.release(&third).await;
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_queue_that_is_used_never_nears_its_end() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let claims = [process.fifo("k"), process.fifo("k"), process.fifo("k"), process.fifo("k")];
    let left = || ["{k}:q", "{k}:w"].map(|key| server.get::<i64>(&["PTTL", key]));
    let far = |left: [i64; 2]| left.iter().all(|left| (55_000..=60_000).contains(left));
    let nears = |millis: &str| ["{k}:q", "{k}:w"].map(|key| server.command(&["PEXPIRE", key, millis]));
    process.take(&claims[0]).await;
    process.wait(&claims[1]).await;
    assert!(far(left()), "the first makes both keys: {:?}", left());
    nears("40000");
    older(&server, &claims[1]);
    process.wait(&claims[2]).await;
    assert!(far(left()), "a further one, 10 s later: {:?}", left());
    nears("40000");
    process.waits(&claims[1]).await;
    assert!(far(left()), "a sign of life: {:?}", left());
    // Half of a pair remains, because a user deleted the other.
    server.command(&["DEL", "{k}:w"]);
    process.wait(&claims[3]).await;
    assert!(far(left()), "a new key beside an old one: {:?}", left());
}

/// Makes the claim's ticket 10 s older. The next claim of the queue is then the first of its period of 10 s.
fn older(server: &RedisServer, claim: &Claim) {
    server.command(&["ZINCRBY", "{k}:q", "-10000000", &token(claim)]);
}

#[tokio::test]
async fn half_a_place_is_none() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, one, other) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&one).await;
    process.wait(&other).await;
    server.command(&["ZREM", "{k}:q", &token(&one)]);
    process.gone(&one).await;
    assert_eq!(queue(&server, "k"), (1, 1), "nothing stays of it");
    server.command(&["HDEL", "{k}:w", &token(&other)]);
    process.gone(&other).await;
    process.gone(&other).await;
    assert_eq!(queue(&server, "k"), (0, 0));
    process.release(&holder).await;
    assert!(server.keys().is_empty(), "neither was served");
}

#[tokio::test]
async fn the_dead_are_dropped_whole_and_never_served() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, dead, alive) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&dead).await;
    process.wait(&alive).await;
    kill_place(&server, "k", &dead);
    process.release(&holder).await;
    process.is_told(&Told::Granted(alive.owner, 0)).await;
    assert!(holds(&server, "k", &alive));
    assert_eq!(queue(&server, "k"), (0, 0));
    process.gone(&dead).await;
    process.release(&alive).await;
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn one_who_was_paused_keeps_the_place_that_nobody_took() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, paused) = (process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&paused).await;
    kill_place(&server, "k", &paused);
    server.command(&["DEL", "k"]);
    // The heartbeat of this claim is counted before the queue is served.
    process.served(&paused).await;
}

#[tokio::test]
async fn one_who_left_leaves_nothing_behind() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, one, other) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&one).await;
    process.wait(&other).await;
    for _ in 0..2 {
        assert_eq!(process.release(&one).await, Released::Taken, "it had no more than a place");
        assert_eq!(queue(&server, "k"), (1, 1));
    }
    // A repeated claim gets a new queue entry, at the end.
    assert_eq!(process.wait(&one).await.position, Some(1));
    process.release(&holder).await;
    assert!(holds(&server, "k", &other));
    process.release(&other).await;
    assert!(holds(&server, "k", &one));
    process.release(&one).await;
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn one_who_leaves_after_being_served_serves_the_next() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, gives_up, next) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&gives_up).await;
    process.wait(&next).await;
    process.release(&holder).await;
    assert!(holds(&server, "k", &gives_up));
    // The claim has not received the message.
    assert_eq!(process.release(&gives_up).await, Released::Released);
    process.is_told(&Told::Granted(next.owner, 0)).await;
    assert!(holds(&server, "k", &next));
}

#[tokio::test]
async fn both_parts_of_the_queue_live_equally_long() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, one, other) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&one).await;
    let long = |why: &str| {
        let left = ["{k}:q", "{k}:w"].map(|key| server.get::<i64>(&["PTTL", key]));
        assert!(left.iter().all(|left| (50_000..=60_000).contains(left)), "{why}: {left:?}");
        assert!(left[0].abs_diff(left[1]) < 100, "{why}: {left:?}");
    };
    long("a place is taken");
    for key in ["{k}:q", "{k}:w"] {
        server.command(&["PEXPIRE", key, "5000"]);
        process.waits(&one).await;
        long("a sign of life");
    }
    server.command(&["PEXPIRE", "{k}:q", "5000"]);
    older(&server, &one);
    process.wait(&other).await;
    long("another place is taken, 10 s later");
}

#[tokio::test]
async fn a_renewal_never_shortens_and_tells_how_many_wait() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, waiter) = (process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    assert_eq!(process.renewed(&holder, ms(5_000)).await, Some(0));
    assert!(server.get::<i64>(&["PTTL", "k"]) > 50_000);
    process.wait(&waiter).await;
    assert_eq!(process.renewed(&holder, 2 * LONG).await, Some(1));
    assert!(server.get::<i64>(&["PTTL", "k"]) > 100_000);
}

#[tokio::test]
async fn a_waiter_of_the_holders_own_process_needs_no_place() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, waiter, fair) = (process.barging("k"), process.barging("k"), process.fifo("k"));
    process.take(&holder).await;
    assert!(process.refused(&waiter).await.own);
    let held = process.enqueue(&waiter, None).await;
    assert!(held.own && held.queued_at.is_none() && held.position.is_none(), "{held:?}");
    assert_eq!(queue(&server, "k"), (0, 0));
    // In strict order every waiter has a queue entry, even a waiter of the holder's process.
    assert!(process.wait(&fair).await.own);
    let other = Process::of(&server).await;
    let theirs = other.barging("k");
    assert!(!other.refused(&theirs).await.own);
    assert!(!other.wait(&theirs).await.own);
    // A second attempt reports the same position.
    let held = other.refused(&theirs).await;
    assert_eq!((held.position, held.waiters), (Some(1), Some(1)));
}

#[tokio::test]
async fn no_more_wait_than_there_is_room_for() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, one, other) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    let none = process.enqueue(&one, Some(0)).await;
    assert!(none.queued_at.is_none());
    assert!(process.enqueue(&one, Some(1)).await.queued_at.is_some());
    let full = process.enqueue(&other, Some(1)).await;
    assert_eq!((full.queued_at.is_none(), full.waiters), (true, Some(1)));
    // A queue entry that exists is kept.
    assert!(process.enqueue(&one, Some(0)).await.queued_at.is_some());
    assert_eq!(queue(&server, "k"), (1, 1));
}

#[tokio::test]
async fn the_moment_of_a_place_is_when_its_request_was_sent() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let process = Process::at(&proxy.url()).await;
    let clock = process.redis.capability().placement.clock();
    let (holder, waiter) = (process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    assert!(process.refused(&waiter).await.queued_at.is_none(), "a try takes no place");
    process.wait(&waiter).await;
    proxy.delay(ms(60));
    let before = clock.now();
    let place = process.waits(&waiter).await.queued_at.expect("it has a place");
    assert!(place.since(before) < ms(50), "counted from the answer: {:?}", place.since(before));
}

#[tokio::test]
async fn in_strict_order_nobody_overtakes_and_a_set_only_takes_a_free_key() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, first, late) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&first).await;
    server.command(&["DEL", "k"]);
    // Any process that finds the key free serves the waiter.
    process.refused(&late).await;
    assert!(holds(&server, "k", &first));
    process.is_told(&Told::Granted(first.owner, 0)).await;
    process.release(&first).await;

    process.take(&holder).await;
    process.wait(&late).await;
    server.command(&["DEL", "k"]);
    let barging = process.barging("k");
    let grabbed = process.redis.acquire(&barging, Ask::Probe).await.expect("an answer");
    assert!(matches!(grabbed, Attempt::Granted(_)), "{grabbed:?}");
    assert_eq!(process.waits(&late).await.position, Some(0));
    let empty = held(process.redis.acquire(&process.barging("k"), Ask::Probe).await.expect("an answer"));
    assert!(empty.holder.is_none() && empty.remaining.is_none());
}

#[tokio::test]
async fn an_enqueue_of_an_owner_that_holds_extends_its_lease() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let holder = process.fifo("k");
    process.take(&holder).await;
    server.command(&["PEXPIRE", "k", "500"]);
    let again = process.redis.acquire(&holder, Ask::Enqueue { room: None }).await.expect("an answer");
    assert!(matches!(again, Attempt::Granted(_)), "{again:?}");
    assert!(server.get::<i64>(&["PTTL", "k"]) > 50_000);
    server.command(&["PEXPIRE", "k", "90000"]);
    process.take(&holder).await;
    assert!(server.get::<i64>(&["PTTL", "k"]) > 80_000, "never shortened");
}

#[tokio::test]
async fn a_script_drops_no_more_than_a_hundred_dead() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let holder = process.fifo("k");
    process.take(&holder).await;
    for _ in 0..130 {
        let dead = process.fifo("k");
        process.wait(&dead).await;
        kill_place(&server, "k", &dead);
    }
    let alive = process.fifo("k");
    process.wait(&alive).await;
    process.release(&holder).await;
    assert_eq!(queue(&server, "k"), (31, 31));
    assert!(!server.keys().contains(&"k".to_owned()), "free until somebody goes on");
    process.served(&alive).await;
    assert_eq!(queue(&server, "k"), (0, 0));
    process.release(&alive).await;
}

#[tokio::test]
async fn more_dead_than_one_script_drops_is_told_by_an_empty_rest() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let holder = process.fifo("k");
    process.take(&holder).await;
    for _ in 0..150 {
        let dead = process.fifo("k");
        process.wait(&dead).await;
        kill_place(&server, "k", &dead);
    }
    server.command(&["DEL", "k"]);
    let held = process.refused(&process.fifo("k")).await;
    assert_eq!(held.remaining, Some(Duration::ZERO));
    let late = process.fifo("k");
    process.take(&late).await;
    process.release(&late).await;
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_place_is_behind_those_before_also_when_the_clock_was_set_back() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, one, other) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&one).await;
    server.command(&["ZADD", "{k}:q", "9000000000000000", &token(&one)]);
    assert_eq!(process.wait(&other).await.position, Some(1));
    let ticket: String = server.get(&["ZSCORE", "{k}:q", &token(&other)]);
    assert_eq!(ticket.parse::<f64>().expect("a number"), 9_000_000_000_000_001.0);
}

#[tokio::test]
async fn a_place_that_was_asked_for_too_late_is_none() {
    let server = RedisServer::start();
    let process = Process::at(&format!("{}?timeout=200ms", server.url())).await;
    let (holder, waiter) = (process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&waiter).await;
    process.release(&waiter).await;
    let late = process.fifo("k");
    server.command(&["CONFIG", "RESETSTAT"]);
    server.stop();
    process.redis.acquire(&late, Ask::Enqueue { room: None }).await.expect_err("no answer");
    tokio::time::sleep(ms(100)).await;
    server.cont();
    wait_until("the late request ran", PATIENCE, async || calls(&server, "evalsha") > 0).await;
    assert_eq!(queue(&server, "k"), (0, 0), "queued for nobody");
}

#[tokio::test]
async fn an_owner_is_queued_with_one_request_also_when_the_answer_is_lost() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let process = Process::at(&format!("{}?timeout=300ms", proxy.url())).await;
    let (holder, waiter) = (process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&process.fifo("k")).await;
    let mut recorder = server.record();
    proxy.replies(Flow::Hold);
    process.redis.acquire(&waiter, Ask::Enqueue { room: None }).await.expect_err("no answer");
    proxy.heal();
    wait_until("it is asked after", PATIENCE, async || process.redis.heartbeat(&waiter).await.is_ok()).await;
    let scripts: Vec<_> = recorder.take().into_iter().filter(|sent| sent.name == "EVALSHA").collect();
    let queued = scripts.iter().filter(|sent| sent.arguments.len() == 3 + 8).count();
    assert_eq!(queued, 1, "{scripts:?}");
    assert_eq!(process.waits(&waiter).await.position, Some(1));
    // There is only one reason to send the script again: the server executed nothing.
    let other = process.fifo("k");
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(process.wait(&other).await.position, Some(2));
    server.command(&["SCRIPT", "FLUSH"]);
    process.waits(&other).await;
}

#[tokio::test]
async fn after_a_new_connection_everybody_asks_and_hears_again() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (holder, waiting) = (Process::of(&server).await, Process::at(&proxy.url()).await);
    let (held, waiter) = (holder.fifo("k"), waiting.fifo("k"));
    holder.take(&held).await;
    waiting.wait(&waiter).await;
    proxy.cut();
    waiting.is_told(&Told::Reconnected).await;
    waiting.waits(&waiter).await;
    holder.release(&held).await;
    waiting.is_told(&Told::Granted(waiter.owner, 0)).await;
    // A claim that never waited has no subscription.
    assert!(holder.told().is_empty());
}

#[tokio::test]
async fn a_connection_subscribes_before_its_first_wait_and_not_earlier() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, one, other) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    let mut recorder = server.record();
    process.take(&holder).await;
    process.refused(&one).await;
    process.renewed(&holder, LONG).await;
    process.wait(&one).await;
    process.wait(&other).await;
    let sent = recorder.take();
    // Holders are notified on another channel, from the first grant on.
    let to_hold =
        |sent: &&SentCommand| sent.arguments.iter().any(|argument| argument.starts_with("lock:wake:held:"));
    // Each connection also requests the time, and sometimes the state of the server.
    let asked = sent.iter().filter(|sent| !["TIME", "INFO"].contains(&&*sent.name));
    let (holds, rest): (Vec<_>, Vec<_>) = asked.partition(to_hold);
    let names = |sent: &[&SentCommand]| sent.iter().map(|sent| sent.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&holds), ["SUBSCRIBE"]);
    assert_eq!(names(&rest), ["EVALSHA", "EVALSHA", "EVALSHA", "SUBSCRIBE", "EVALSHA", "EVALSHA"]);
}

#[tokio::test]
async fn nothing_without_an_expiry_and_nothing_at_the_end() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let modes = [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 2 }];
    for (number, mode) in modes.into_iter().enumerate() {
        let key = format!("k{number}");
        let claims: Vec<_> = (0..6).map(|_| process.claim(&key, mode, Queue::Fifo)).collect();
        for claim in &claims {
            let _ = process.redis.acquire(claim, Ask::Enqueue { room: None }).await.expect("an answer");
            all_expire(&server);
        }
        for claim in &claims {
            let _ = process.heartbeat(claim).await;
            all_expire(&server);
        }
        for claim in &claims {
            assert_eq!(process.release(claim).await, Released::Released);
            all_expire(&server);
        }
        assert!(server.keys().is_empty(), "{mode:?} leaves {:?}", server.keys());
    }
}

/// A caller that gets the error cannot become the holder later.
#[tokio::test]
async fn a_wait_that_is_over_has_left_the_queue() {
    let server = RedisServer::start();
    let [holder, waiter, other] = [manager(&server).await, manager(&server).await, manager(&server).await];
    for kind in [Kind::Reentrant, Kind::Fair] {
        for round in 0..100 {
            let guard = holder.request("k", kind).ttl(LONG).acquire().await.expect("it is free");
            let waits = waiter.request("k", kind).ttl(LONG).wait(ms(15));
            waits.acquire().await.expect_err("it is held");
            guard.release().await.expect("an answer");
            let next = other.request("k", kind).ttl(LONG).try_acquire().await.expect("an answer");
            let next = next.unwrap_or_else(|| panic!("{kind:?}, round {round}: granted to nobody"));
            next.release().await.expect("an answer");
        }
    }
}
