//! The locks of a server from the view of an operator, and forced releases.

use lock_core::backend::Mode;
use lock_core::{Kind, LockErrorKind, LossReason, ManagerBuilder};
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::support::{LONG, calls, manager, ms, within};

#[tokio::test]
async fn a_namespace_is_a_world_of_its_own_and_strangers_in_it_are_shown() {
    let server = RedisServer::start();
    let shop = async || {
        let builder = ManagerBuilder::connect(&server.url()).await.expect("the server takes locks");
        builder.namespace("shop").service("shop").build().expect("good defaults")
    };
    let (shop, other, plain) = (shop().await, shop().await, manager(&server).await);
    let _order = shop.lock("order:1").label("pay").fencing(true).acquire().await.expect("free");
    let waiting = tokio::spawn(other.fair("order:1").ttl(LONG).wait(LONG).label("refund").acquire());
    wait_until("it waits", PATIENCE, async || server.keys().contains(&"{shop:order:1}:q".to_owned())).await;
    let _page = plain.read("page").acquire().await.expect("free");
    server.command(&["SET", "shop:import", "another library", "PX", "60000"]);
    server.command(&["SET", "shop:for-ever", "another library"]);
    server.command(&["SET", "session:7", "no lock at all"]);
    server.command(&["RPUSH", "shop:list", "no lock"]);
    server.command(&["ZADD", "shop:ranking", "1", "no lock"]);
    server.command(&["HSET", "shop:hash", "no", "lock"]);

    let found = shop.locks().await.expect("a list");
    assert!(!found.truncated);
    let keys: Vec<_> = found.locks.iter().map(|lock| lock.key.as_str()).collect();
    assert_eq!(keys, ["for-ever", "import", "order:1"]);
    let [for_ever, import, order] = &found.locks[..] else { unreachable!() };
    assert_eq!((&import.holders[0].record, import.mode), (&None, Mode::Exclusive));
    assert!(import.holders[0].remaining.is_some_and(|left| left <= LONG));
    assert_eq!(for_ever.holders[0].remaining, None);
    let record = order.holders[0].record.as_ref().expect("ours");
    assert_eq!((record.identity().service(), record.label()), ("shop", Some("pay")));
    assert_eq!(order.waiting, 1);
    assert_eq!(order.waiters[0].record.as_ref().expect("ours").label(), Some("refund"));

    assert_eq!(shop.locks_matching("order").await.expect("a list").locks.len(), 1);
    // Without a namespace, the list contains only locks of this library, because any other string may be unrelated
    // data.
    let all = plain.locks().await.expect("a list").locks;
    assert_eq!(all.iter().map(|lock| lock.key.as_str()).collect::<Vec<_>>(), ["page", "shop:order:1"]);
    assert_eq!(all[0].mode, Mode::Shared);
    waiting.abort();
}

/// A key with other data refuses every lock. It must not look free to an operator.
#[tokio::test]
async fn a_key_with_other_data_is_refused_as_by_a_request() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    server.command(&["RPUSH", "list", "no lock"]);
    server.command(&["ZADD", "ranking", "1", "no lock"]);
    server.command(&["SADD", "set", "no lock"]);
    server.command(&["HSET", "hash", "no", "lock"]);
    server.command(&["HSET", "redisson", "285475da-9152-4c83-822a-67ee2f116a79:52", "1"]);
    for key in ["list", "ranking", "set", "hash", "redisson"] {
        let expected = locks.lock(key).try_acquire().await.expect_err("other data");
        assert_eq!(expected.kind(), LockErrorKind::InvalidRequest, "{expected}");
        assert_eq!(expected.to_string().contains("Redisson"), key == "redisson", "{expected}");
        for error in [
            locks.inspect(key).await.expect_err("it is not free"),
            locks.is_locked(key).await.expect_err("it is not free"),
        ] {
            assert!(expected.to_string().starts_with(&error.to_string()), "{error}");
            assert_eq!((error.kind(), error.key()), (expected.kind(), Some(key)));
        }
    }
    assert!(locks.locks().await.expect("a list").locks.is_empty(), "a list leaves them out");
    assert!(!locks.is_locked("free").await.expect("an answer"));
    locks.latch("latch").set(1).await.expect("an answer");
    assert!(!locks.is_locked("latch").await.expect("an answer"), "a latch is no lock");
}

#[tokio::test]
async fn thousands_are_listed_in_steps_that_let_others_in_between() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    // These are locks as the library writes them, mixed with keys that are not locks.
    let script = "for i = 1, 5000 do
            redis.call('SET', 'k:' .. i, string.rep('a', 48) .. ' host=a pid=1 service=b since=1', 'PX', 600000)
            redis.call('SET', 'other:' .. i, i)
        end";
    server.command(&["EVAL", script, "0"]);
    server.command(&["CONFIG", "RESETSTAT"]);
    let found = locks.locks_matching("k:").await.expect("a list");
    assert_eq!((found.locks.len(), found.truncated), (5_000, false));
    assert!(found.locks.is_sorted_by(|a, b| a.key < b.key));
    assert_eq!(calls(&server, "keys"), 0);
    for command in ["scan", "evalsha"] {
        assert!(calls(&server, command) >= 10, "in steps: {command}");
    }
}

/// Returns the time of the longest command since `CONFIG RESETSTAT` and `SLOWLOG RESET` in milliseconds, without
/// commands that took less than a millisecond.
fn longest(server: &RedisServer) -> u64 {
    let entries: Vec<Vec<redis::Value>> = server.get(&["SLOWLOG", "GET", "-1"]);
    let micros = entries.iter().map(|entry| match entry[2] {
        redis::Value::Int(micros) => u64::try_from(micros).expect("a time"),
        ref other => panic!("{other:?}"),
    });
    micros.max().unwrap_or(0) / 1_000
}

#[tokio::test]
async fn what_is_none_of_its_own_is_not_read_whole() {
    let server = RedisServer::builder().config("slowlog-log-slower-than", "1000").start();
    server.command(&["SETRANGE", "shop:export", "49999999", "x"]);
    let fill = "for i = 1, 200000 do redis.call('ZADD', 'shop:leaderboard', i, 'player:' .. i) end";
    server.command(&["EVAL", fill, "0"]);
    // Without this flush, the measured script could have to collect the garbage of this script.
    server.command(&["SCRIPT", "FLUSH", "SYNC"]);
    let builder = ManagerBuilder::connect(&server.url()).await.expect("the server takes locks");
    let (shop, plain) = (builder.namespace("shop").build().expect("good defaults"), manager(&server).await);
    let _guard = shop.lock("order:1").acquire().await.expect("free");
    let (mut found, mut taken) = (Vec::new(), u64::MAX);
    // The test uses the minimum of three runs, so that other processes on the machine do not affect the result.
    for _ in 0..3 {
        server.command(&["SLOWLOG", "RESET"]);
        found = shop.locks().await.expect("a list").locks;
        // A string is a lock of another library, whatever it contains.
        assert_eq!(found.iter().map(|lock| lock.key.as_str()).collect::<Vec<_>>(), ["export", "order:1"]);
        assert_eq!(plain.locks().await.expect("a list").locks.len(), 1);
        assert!(shop.is_locked("export").await.expect("an answer"));
        shop.is_locked("leaderboard").await.expect_err("it holds other data");
        taken = taken.min(longest(&server));
    }
    // A read of one such string takes some hundred milliseconds.
    assert!(taken < 100, "the server stood still for {taken} ms");
    // An operator can release this lock by force like any other lock, by the listed id.
    let id = &found[0].holders[0].id;
    assert!(shop.force_release("export", id, "no lock").await.expect("an answer"));
    assert!(!shop.is_locked("export").await.expect("an answer"));
}

#[tokio::test]
async fn of_many_holders_and_waiters_the_first_are_told() {
    let server = RedisServer::builder().config("slowlog-log-slower-than", "1000").start();
    let locks = manager(&server).await;
    let script = "
        local now = redis.call('TIME')[1] * 1000
        for key = 1, 20 do
          redis.call('ZADD', 'k:' .. key, '+inf', 'mode shared')
          for i = 1, 5000 do
            redis.call('ZADD', 'k:' .. key, now + (i > 1000 and 600000 or -100000) + i, string.format('%048x', i) .. ' host=a pid=1 service=b since=1')
          end
          for i = 1, 700 do
            local token = string.format('%048x', 100000 + i)
            redis.call('ZADD', '{k:' .. key .. '}:q', i, token)
            redis.call('HSET', '{k:' .. key .. '}:w', token,
              string.format('%.0f', i <= 200 and 1 or now + 600000) .. ' 60000 x host=a pid=1 service= since=1')
          end
        end";
    server.command(&["EVAL", script, "0"]);
    server.command(&["SCRIPT", "FLUSH", "SYNC"]);
    let mut taken = u64::MAX;
    // The test uses the minimum of three runs, so that other processes on the machine do not affect the result.
    for _ in 0..3 {
        server.command(&["SLOWLOG", "RESET"]);
        let found = locks.locks().await.expect("a list").locks;
        assert_eq!(found.len(), 20);
        for lock in &found {
            assert_eq!(
                (lock.holding, lock.holders.len()),
                (4_000, 100),
                "those whose lease is over do not count"
            );
            assert_eq!((lock.waiting, lock.waiters.len()), (500, 16), "nor do the dead");
        }
        taken = taken.min(longest(&server));
    }
    assert!(taken < 100, "the server stood still for {taken} ms");
}

#[tokio::test]
async fn one_key_is_looked_at_by_one_command() {
    let server = RedisServer::start();
    let builder = ManagerBuilder::connect(&server.url()).await.expect("the server takes locks");
    let (shop, plain) = (builder.namespace("shop").build().expect("good defaults"), manager(&server).await);
    let _guard = shop.semaphore("k", 3).label("pay").acquire().await.expect("free");
    server.command(&["SET", "other", "another library", "PX", "60000"]);
    server.command(&["HSET", "data", "no", "lock"]);
    shop.is_locked("none").await.expect("an answer");
    server.command(&["CONFIG", "RESETSTAT"]);
    let lock = shop.inspect("k").await.expect("an answer").expect("it is held");
    assert_eq!((lock.key.as_str(), lock.mode, lock.holding), ("k", Mode::Permit { of: 3 }, 1));
    assert_eq!(lock.holders[0].record.as_ref().expect("ours").label(), Some("pay"));
    assert_eq!((calls(&server, "evalsha"), calls(&server, "scan")), (1, 0));
    assert!(!plain.is_locked("k").await.expect("an answer"), "of another namespace");
    let other = plain.inspect("other").await.expect("an answer").expect("it keeps others out");
    assert!(other.holders[0].record.is_none());
    plain.is_locked("data").await.expect_err("it holds other data");
    server.command(&["SCRIPT", "FLUSH"]);
    assert!(plain.is_locked("other").await.expect("an answer"), "a forgotten script is loaded again");
}

#[tokio::test]
async fn a_victim_is_told_at_once_and_its_body_is_dropped() {
    let server = RedisServer::start();
    let (victim, operator) = (manager(&server).await, manager(&server).await);
    let first = operator.lock("k").ttl(LONG).acquire().await.expect("free");
    let body = victim.lock("k").ttl(LONG).wait(LONG);
    let body = tokio::spawn(body.run(std::future::pending::<()>()));
    wait_until("it waits", PATIENCE, async || server.keys().contains(&"{k}:q".to_owned())).await;
    first.release().await.expect("an answer");
    wait_until("it holds", PATIENCE, async || victim.held() == 1).await;
    let next = tokio::spawn(operator.fair("k").ttl(LONG).wait(LONG).acquire());
    wait_until("the next waits", PATIENCE, async || server.keys().contains(&"{k}:q".to_owned())).await;

    let id = operator.locks().await.expect("a list").locks[0].holders[0].id.clone();
    assert!(operator.force_release("k", &id, "stuck").await.expect("an answer"));
    // The loss is reported long before the next renewal, which is due after a third of the lease.
    let error = within(PATIENCE, "the loss", body).await.expect("no panic").expect_err("lost");
    assert_eq!(error.loss_reason(), Some(LossReason::Forced));
    let next = within(PATIENCE, "the next", next).await.expect("no panic").expect("served");
    assert!(!operator.force_release("k", &id, "again").await.expect("an answer"), "the next is not hit");
    assert!(next.is_held());
    next.release().await.expect("an answer");
}

/// Returns how many connections are subscribed to the notifications for holders.
fn attending(server: &RedisServer) -> usize {
    server.get::<Vec<String>>(&["PUBSUB", "CHANNELS", "lock:wake:held:*"]).len()
}

#[tokio::test]
async fn a_victim_that_never_waited_is_told_at_once_too() {
    let server = RedisServer::start();
    let (victim, operator) = (manager(&server).await, manager(&server).await);
    for kind in [Kind::Reentrant, Kind::Fair, Kind::Read, Kind::Semaphore { permits: 2 }] {
        let guard = victim.request("k", kind).ttl(LONG).acquire().await.expect("free");
        wait_until("it listens", PATIENCE, async || attending(&server) == 1).await;
        let id = operator.locks().await.expect("a list").locks[0].holders[0].id.clone();
        assert!(operator.force_release("k", &id, "stuck").await.expect("an answer"));
        assert_eq!(within(PATIENCE, "the loss", guard.lost()).await, LossReason::Forced);
    }
    // The notification also arrives over a connection that was made later.
    let guard = victim.lock("k").ttl(LONG).acquire().await.expect("free");
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    wait_until("it listens again", PATIENCE, async || attending(&server) == 1).await;
    let id = operator.locks().await.expect("a list").locks[0].holders[0].id.clone();
    assert!(operator.force_release("k", &id, "stuck").await.expect("an answer"));
    assert_eq!(within(PATIENCE, "the loss", guard.lost()).await, LossReason::Forced);
}

#[tokio::test]
async fn a_victim_whom_no_message_reaches_finds_out_by_its_renewal() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "default", "-publish"]);
    let (victim, operator) = (manager(&server).await, manager(&server).await);
    let guard = victim.lock("k").ttl(ms(900)).acquire().await.expect("free");
    let id = operator.locks().await.expect("a list").locks[0].holders[0].id.clone();
    assert!(operator.force_release("k", &id, "stuck").await.expect("an answer"));
    let reason = within(PATIENCE, "the loss", guard.lost()).await;
    assert!(matches!(reason, LossReason::Taken | LossReason::Expired), "{reason}");
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_holder_of_another_library_can_be_evicted_too() {
    let server = RedisServer::start();
    let builder = ManagerBuilder::connect(&server.url()).await.expect("the server takes locks");
    let locks = builder.namespace("shop").build().expect("good defaults");
    server.command(&["SET", "shop:k", "another library"]);
    let id = locks.locks().await.expect("a list").locks[0].holders[0].id.clone();
    server.command(&["SET", "shop:k", "yet another"]);
    assert!(!locks.force_release("k", &id, "gone").await.expect("an answer"));
    let shown = locks.locks().await.expect("a list").locks.remove(0);
    assert!(locks.force_release(shown.key, &shown.holders[0].id, "no expiry").await.expect("an answer"));
    assert!(locks.lock("k").try_acquire().await.expect("an answer").is_some());
}

#[tokio::test]
async fn a_server_that_is_gone_is_an_error() {
    let mut server = RedisServer::start();
    let locks = manager(&server).await;
    server.kill9();
    let error = within(PATIENCE, "the error", locks.locks()).await.expect_err("no server");
    assert!(error.is_unavailable(), "{error}");
}

/// The time of the request differs from the time of the grant, because a candidate may have waited for hours.
#[tokio::test]
async fn who_had_to_wait_holds_since_the_grant() {
    let server = RedisServer::start();
    let (locks, other) = (manager(&server).await, manager(&server).await);
    let look = async || {
        let holder = locks.inspect("k").await.expect("an answer").expect("it is held").holders.remove(0);
        let asked = holder.record.as_ref().expect("ours").since_epoch();
        (holder.id, holder.held_since.map(|since| since.saturating_sub(asked)))
    };
    let wait = || tokio::spawn(other.write("k").ttl(LONG).wait(LONG).acquire());
    let waits = async || {
        wait_until("it waits", PATIENCE, async || server.keys().contains(&"{k}:q".to_owned())).await;
        tokio::time::sleep(ms(1_200)).await;
    };
    let first = locks.lock("k").ttl(LONG).acquire().await.expect("free");
    assert!(look().await.1.is_some_and(|waited| waited < ms(1_000)));
    // This waiter is served by the queue.
    let waiting = wait();
    waits().await;
    first.release().await.expect("an answer");
    let guard = waiting.await.expect("no panic").expect("it is free");
    let (id, waited) = look().await;
    assert!(waited >= Some(ms(1_000)), "{waited:?}");
    // A reader keeps the id of the grant, but not its start time.
    let reader = guard.downgrade().await.expect("an answer");
    assert_eq!(look().await, (id, None));
    reader.release().await.expect("an answer");
    // This waiter acquires by its own request, after the server has forgotten the queue.
    let first = locks.lock("k").ttl(LONG).acquire().await.expect("free");
    let waiting = wait();
    waits().await;
    server.command(&["FLUSHALL"]);
    let guard = waiting.await.expect("no panic").expect("it is free");
    let (_, waited) = look().await;
    assert!(waited >= Some(ms(1_000)), "{waited:?}");
    drop((first, guard));
}

/// A claim that queues again, long after its first request, is not a holder yet.
#[tokio::test]
async fn who_waits_has_no_time_of_a_grant() {
    let server = RedisServer::start();
    let (locks, other) = (manager(&server).await, manager(&server).await);
    let first = locks.lock("k").ttl(LONG).acquire().await.expect("free");
    let waiting = tokio::spawn(other.write("k").ttl(LONG).wait(LONG).acquire());
    let texts = |command: &str| -> Vec<String> {
        redis::from_redis_value(server.command(&[command, "{k}:w"])).expect("a list of texts")
    };
    wait_until("it waits", PATIENCE, async || texts("HKEYS").len() == 1).await;
    tokio::time::sleep(ms(1_200)).await;
    server.command(&["DEL", "{k}:q", "{k}:w"]);
    wait_until("it waits again", PATIENCE, async || texts("HKEYS").len() == 1).await;
    let entries = texts("HVALS");
    assert!(entries[0].contains("since=") && !entries[0].contains("granted="), "{entries:?}");
    first.release().await.expect("an answer");
    waiting.await.expect("no panic").expect("it is free").release().await.expect("an answer");
}
