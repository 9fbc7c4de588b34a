//! The mark on the value of an exclusive holder. It says that there is a waiter, so the release must read the queue.

use std::collections::BTreeMap;

use lock_core::backend::{Ask, Attempt, Backend, Mode, Queue, Released};
use lock_core::{Kind, strategy};
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::store::{Process, Told, holds, kill_place, queue, token};
use crate::support::{LONG, manager, ms, try_once};

/// Returns the byte after the holder's token.
fn mark(server: &RedisServer, key: &str) -> String {
    server.get(&["GETRANGE", key, "48", "48"])
}

fn unmark(server: &RedisServer, key: &str) {
    server.command(&["SETRANGE", key, "48", " "]);
}

#[tokio::test]
async fn the_first_who_waits_marks_the_holder_and_changes_nothing_else() {
    let server = RedisServer::start();
    let [process, other] = [Process::of(&server).await, Process::of(&server).await];
    for (queued, mode) in
        [(Queue::Barging, Mode::Exclusive), (Queue::Fifo, Mode::Exclusive), (Queue::Fifo, Mode::Shared)]
    {
        let holder = process.claim("k", Mode::Exclusive, queued);
        process.take(&holder).await;
        let before: String = server.get(&["GET", "k"]);
        assert_eq!(mark(&server, "k"), " ");
        other.refused(&other.claim("k", mode, queued)).await;
        assert_eq!(mark(&server, "k"), " ", "who does not wait leaves no mark");
        server.command(&["PEXPIRE", "k", "50000"]);
        let waiters = [other.claim("k", mode, queued), other.claim("k", mode, queued)];
        for waiter in &waiters {
            other.wait(waiter).await;
            let (marked, left): (String, i64) = (server.get(&["GET", "k"]), server.get(&["PTTL", "k"]));
            assert_eq!(marked.replace('!', " "), before, "{mode:?}");
            assert_eq!((mark(&server, "k").as_str(), left > 45_000 && left <= 50_000), ("!", true), "{left}");
        }
        assert!(holds(&server, "k", &holder));
        let held = other.refused(&other.claim("k", mode, queued)).await;
        assert_eq!(held.holder.expect("a record").identity().pid(), std::process::id());
        assert!(process.renewed(&holder, LONG).await.is_some());
        assert_eq!(process.release(&holder).await, Released::Released);
        assert!(mode == Mode::Shared || holds(&server, "k", &waiters[0]), "{mode:?}");
        for waiter in &waiters {
            assert_eq!(other.release(waiter).await, Released::Released);
        }
        assert!(server.keys().is_empty(), "{mode:?}");
    }
}

#[tokio::test]
async fn the_id_of_a_grant_is_the_same_with_the_mark_and_without() {
    let server = RedisServer::start();
    let [locks, other] = [manager(&server).await, manager(&server).await];
    let _guard = try_once(&locks, "k").await.expect("the key is free");
    let look = async || locks.inspect("k").await.expect("an answer").expect("it is held").holders.remove(0);
    let before = look().await;
    let waiting = tokio::spawn(other.lock("k").ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || mark(&server, "k") == "!").await;
    let after = look().await;
    assert_eq!((&before.id, &before.record), (&after.id, &after.record));
    assert!(after.record.is_some());
    assert_eq!(locks.locks().await.expect("a list").locks[0].holders[0].id, before.id);
    assert!(locks.force_release("k", &before.id, "seen before it was marked").await.expect("an answer"));
    waiting.await.expect("no panic").expect("served").release().await.expect("an answer");
}

#[tokio::test]
async fn who_is_granted_by_the_queue_starts_with_the_mark_while_others_wait() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    // The waiter is served by a release on the short path, by one on the long path past a dead waiter, and by a
    // heartbeat.
    for way in 0..3 {
        let claims: [_; 5] = std::array::from_fn(|_| process.fifo("k"));
        process.take(&claims[0]).await;
        for claim in &claims[1..] {
            process.wait(claim).await;
        }
        kill_place(&server, "k", &claims[if way == 1 { 1 } else { 4 }]);
        let [first, last] = if way == 1 { [&claims[2], &claims[3]] } else { [&claims[1], &claims[2]] };
        match way {
            2 => {
                server.command(&["DEL", "k"]);
                process.served(first).await;
            }
            _ => assert_eq!(process.release(&claims[0]).await, Released::Released),
        }
        assert!(holds(&server, "k", first), "{way}");
        assert_eq!(mark(&server, "k"), "!", "{way}");
        for claim in &claims[3..] {
            process.release(claim).await;
        }
        if way != 1 {
            assert_eq!(process.release(first).await, Released::Released);
            assert!(holds(&server, "k", last), "{way}");
            assert_eq!(
                (mark(&server, "k").as_str(), queue(&server, "k")),
                (" ", (0, 0)),
                "nobody is left: {way}"
            );
            process.release(last).await;
        } else {
            process.release(first).await;
        }
        assert!(server.keys().is_empty(), "{way}: {:?}", server.keys());
    }
}

#[tokio::test]
async fn a_sign_of_life_marks_who_took_the_key_past_the_queue() {
    let server = RedisServer::start();
    let [process, other] = [Process::of(&server).await, Process::of(&server).await];
    let (holder, waiter, grabs) = (process.fifo("k"), process.fifo("k"), other.barging("k"));
    process.take(&holder).await;
    process.wait(&waiter).await;
    server.command(&["DEL", "k"]);
    // This process listens, because it waits for another key.
    other.take(&other.fifo("busy")).await;
    other.wait(&other.fifo("busy")).await;
    let grabbed = other.redis.acquire(&grabs, Ask::Probe).await.expect("an answer");
    assert!(matches!(grabbed, Attempt::Granted(_)), "{grabbed:?}");
    assert_eq!(mark(&server, "k"), " ");
    process.waits(&waiter).await;
    assert_eq!(mark(&server, "k"), "!");
    other.is_told(&Told::Contended("k".to_owned())).await;
    process.waits(&waiter).await;
    assert_eq!(other.told().iter().filter(|told| **told == Told::Contended("k".to_owned())).count(), 1);
    assert_eq!(other.release(&grabs).await, Released::Released);
    assert!(holds(&server, "k", &waiter), "served at once");
}

#[tokio::test]
async fn a_lost_mark_costs_a_sign_of_life_and_no_more() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, waiter) = (process.fifo("k"), process.fifo("k"));
    for heartbeat in [true, false] {
        process.take(&holder).await;
        process.wait(&waiter).await;
        unmark(&server, "k");
        if heartbeat {
            process.waits(&waiter).await;
        }
        process.release(&holder).await;
        assert_eq!(holds(&server, "k", &waiter), heartbeat, "without a mark a release looks at nothing");
        process.served(&waiter).await;
        process.release(&waiter).await;
    }
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_mark_that_is_left_over_costs_a_look() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, waiter, other) = (process.fifo("k"), process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&waiter).await;
    process.release(&waiter).await;
    assert_eq!((mark(&server, "k").as_str(), queue(&server, "k")), ("!", (0, 0)));
    server.command(&["CONFIG", "RESETSTAT"]);
    assert_eq!(process.release(&holder).await, Released::Released);
    assert_eq!(calls_in_scripts(&server), [("del", 1), ("getrange", 1), ("zrange", 1)]);
    assert_eq!(process.release(&holder).await, Released::Expired, "told again");
    process.take(&other).await;
    assert_eq!(process.release(&holder).await, Released::Taken);
    assert!(holds(&server, "k", &other));
}

/// Returns the commands that scripts called since the last `CONFIG RESETSTAT`. A connection also sends `TIME`
/// sometimes.
fn calls_in_scripts(server: &RedisServer) -> Vec<(&'static str, u64)> {
    const KNOWN: [&str; 6] = ["del", "get", "getrange", "set", "zrange", "hlen"];
    let stats: BTreeMap<String, (u64, u64)> = server.command_stats();
    let stats = stats.into_iter().filter(|(name, _)| !["time", "evalsha"].contains(&name.as_str()));
    let known =
        |name: String| *KNOWN.iter().find(|known| **known == name).unwrap_or_else(|| panic!("{name}"));
    stats.map(|(name, (calls, _))| (known(name), calls)).collect()
}

#[tokio::test]
async fn a_release_that_nobody_waits_for_compares_and_deletes() {
    const TIMES: u64 = 20;
    let server = RedisServer::start();
    let locks = manager(&server).await;
    let (mut plain, mut fenced, mut fair) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..TIMES {
        plain.push(try_once(&locks, &format!("a{n}")).await.expect("free"));
        let request = locks.lock(format!("b{n}")).ttl(LONG).fencing(true);
        fenced.push(request.acquire().await.expect("free"));
        fair.push(locks.fair(format!("c{n}")).ttl(LONG).acquire().await.expect("free"));
    }
    for guards in [plain, fenced, fair] {
        server.command(&["CONFIG", "RESETSTAT"]);
        for guard in guards {
            assert_eq!(guard.release().await.expect("an answer"), Released::Released);
        }
        assert_eq!(calls_in_scripts(&server), [("del", TIMES), ("getrange", TIMES)]);
    }
}

#[tokio::test]
async fn a_value_that_another_library_wrote_is_never_marked() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let hex = "a".repeat(48);
    let values = [
        "6f7c0e7a".to_owned(),
        String::new(),
        hex.clone(),
        format!("{hex}a rest"),
        format!("{hex}-rest"),
        format!("{} rest", "A".repeat(48)),
        format!("{} rest", "g".repeat(48)),
        format!("{}  rest", "a".repeat(47)),
        "x".repeat(60),
    ];
    for value in &values {
        server.command(&["SET", "k", value]);
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit { of: 2 }] {
            let (first, second) =
                (process.claim("k", mode, Queue::Fifo), process.claim("k", mode, Queue::Fifo));
            let asked = process.redis.acquire(&first, Ask::Enqueue { room: None }).await;
            if mode != (Mode::Permit { of: 2 }) {
                let _ = asked.expect("an answer");
                process.wait(&second).await;
                process.waits(&first).await;
            }
            for claim in [&first, &second] {
                assert_eq!(process.release(claim).await, Released::Taken);
            }
            assert_eq!(&server.get::<String>(&["GET", "k"]), value, "{mode:?}");
        }
    }
}

/// An owner that requested a downgrade sends the whole value, as it wrote it.
#[tokio::test]
async fn a_holder_that_may_be_shared_finds_its_marked_value() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, writer) = (process.claim("k", Mode::Exclusive, Queue::Fifo), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&writer).await;
    holder.mark_shared();
    assert_eq!(process.renewed(&holder, LONG).await, Some(1));
    process.redis.fence(&holder).await.expect("it holds");
    assert!(matches!(process.redis.downgrade(&holder).await, lock_core::backend::Renewal::Renewed { .. }));
    assert_eq!(process.renewed(&holder, LONG).await, Some(1));
    assert_eq!(process.release(&holder).await, Released::Released);
    assert!(holds(&server, "k", &writer));
}

#[tokio::test]
async fn a_key_that_is_kept_and_marked_stays_kept() {
    let server = RedisServer::start();
    let process = Process::of(&server).await;
    let (holder, waiter) = (process.fifo("k"), process.fifo("k"));
    process.take(&holder).await;
    process.wait(&waiter).await;
    for _ in 0..2 {
        assert_eq!(process.redis.release(&holder, Some(LONG)).await.expect("an answer"), Released::Released);
        process.waits(&waiter).await;
    }
    assert_eq!(process.release(&holder).await, Released::Released, "its work is known by its end");
    let locks = manager(&server).await;
    let kept = locks.inspect("k").await.expect("an answer").expect("it is kept").holders.remove(0);
    assert!(kept.kept && kept.record.is_some(), "{kept:?}");
    assert!(!server.get::<String>(&["GET", "k"]).starts_with(&token(&holder)));
}

#[tokio::test]
async fn several_keys_of_one_grant_are_marked_one_by_one() {
    let server = RedisServer::start();
    let [locks, other] = [manager(&server).await, manager(&server).await];
    let guard = locks.all(["a", "b"]).ttl(LONG).acquire().await.expect("free");
    let waiting = tokio::spawn(other.request("b", Kind::Reentrant).ttl(LONG).wait(LONG).acquire());
    wait_until("it waits", PATIENCE, async || mark(&server, "b") == "!").await;
    assert_eq!(mark(&server, "a"), " ");
    guard.release().await.expect("an answer");
    let guard = tokio::time::timeout(ms(1_500), waiting).await.expect("by a message").expect("no panic");
    guard.expect("served").release().await.expect("an answer");
    let free = locks.all(["a", "b"]).strategy(strategy::fail_fast()).acquire().await.expect("free");
    free.release().await.expect("an answer");
}
