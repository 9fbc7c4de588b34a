//! A server that answers with an error. The caller gets the error, and the library works again as soon as the server
//! does.

use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockGuard, Released};
use lock_tests::{PATIENCE, RedisServer, wait_until};

use crate::support::{LONG, calls, connect, cycle, empty, manager, ms, try_once, within, works_again};

/// Checks that a refusal is temporary, and names the server's error.
fn temporary(error: &LockError, code: &str) {
    assert_eq!(error.kind(), LockErrorKind::Unavailable, "{error}");
    assert!(error.is_temporary() && error.to_string().contains(code), "{error}");
}

#[tokio::test]
async fn a_key_with_other_data_is_an_error_and_left_alone() {
    let server = RedisServer::start();
    let locks = manager(&server).await;
    server.command(&["LPUSH", "list", "a", "b"]);
    for fencing in [false, true] {
        let error = locks.lock("list").fencing(fencing).acquire().await.expect_err("it holds other data");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
        assert!(!error.is_temporary() && error.to_string().contains("list"), "{error}");
    }
    // The key of the last fencing token has other data, so nothing is locked.
    server.command(&["LPUSH", "{k}:f", "a"]);
    let error = locks.lock("k").fencing(true).acquire().await.expect_err("no token can be made");
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    // The key was overwritten while it was held.
    let guard = try_once(&locks, "j").await.expect("the key is free");
    server.command(&["DEL", "j"]);
    server.command(&["LPUSH", "j", "a"]);
    assert_eq!(guard.release().await.expect("an answer"), Released::Taken);
    assert_eq!(server.keys(), ["j", "list", "{k}:f"]);
}

#[tokio::test]
async fn a_busy_server_refuses_until_the_script_is_killed() {
    let server = RedisServer::builder().config("lua-time-limit", "100").start();
    let locks = manager(&server).await;
    let kept = locks.lock("kept").ttl(LONG).acquire().await.expect("the key is free");
    let busy = std::thread::spawn({
        let url = server.url();
        move || {
            let mut connection =
                redis::Client::open(url).expect("a URL").get_connection().expect("a connection");
            redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection)
        }
    });
    wait_until("the server is busy", PATIENCE, async || {
        server.try_command(&["GET", "k"]).is_err_and(|error| error.code() == Some("BUSY"))
    })
    .await;
    within(PATIENCE, "being refused four times", async {
        temporary(&try_once(&locks, "k").await.expect_err("the server is busy"), "BUSY");
        temporary(&kept.fencing_token().await.expect_err("the server is busy"), "BUSY");
        temporary(&kept.extend(2 * LONG).await.expect_err("the server is busy"), "BUSY");
        temporary(&kept.release().await.expect_err("the server is busy"), "BUSY");
    })
    .await;
    server.command(&["SCRIPT", "KILL"]);
    assert!(busy.join().expect("no panic").is_err());
    works_again(&locks, "k").await;
    // The refused release continues in the background.
    empty(&server, PATIENCE).await;
}

/// Renewals run on a thread of the library, with a separate connection. The server refuses this connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_as_many_clients_as_it_allows_loses_no_lock() {
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut admin = client.get_connection().expect("a connection");
    let locks = connect(&server.url()).await;
    let info = |admin: &mut redis::Connection, field: &str| -> u32 {
        let info: String = redis::cmd("INFO").query(admin).expect("an answer");
        let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.and_then(|number| number.trim().parse().ok()).expect("a number")
    };
    wait_until("only the two are connected", PATIENCE, async || info(&mut admin, "connected_clients") == 2)
        .await;
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(2).exec(&mut admin).expect("it may");
    let ttl = Duration::from_millis(1_500);
    let guards = [
        locks.lock("k").ttl(ttl).acquire().await.expect("free"),
        locks.fair("f").ttl(ttl).acquire().await.expect("free"),
        locks.semaphore("s", 2).ttl(ttl).acquire().await.expect("free"),
    ];
    tokio::time::sleep(ttl * 2).await;
    for guard in guards {
        guard.check().expect("it is renewed over the connection that is open");
        assert_eq!(guard.release().await.expect("an answer"), Released::Released);
    }
    assert!(info(&mut admin, "rejected_connections") > 0, "there was a connection for renewals");
    // A new client reports the server's own error, without a guess about its cause.
    for _ in 0..10 {
        let url = format!("{}?connect_timeout=200ms", server.url());
        let error = lock_core::LockManager::connect(&url).await.expect_err("it is full");
        let text = error.to_string();
        assert!(error.is_temporary() && text.contains("max number of clients reached"), "{error}");
        assert!(!text.contains("rediss://"), "{error}");
    }
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(100).exec(&mut admin).expect("it may");
    cycle(&connect(&server.url()).await, "k").await;
}

#[tokio::test]
async fn a_server_that_loads_its_data_refuses_until_it_is_done() {
    // While the server loads its data, it serves its clients after every 2 MB.
    let server = RedisServer::builder().config("rdbcompression", "no").start();
    let locks = connect(&format!("{}?timeout=5s", server.url())).await;
    cycle(&locks, "k").await;
    server.command(&["DEBUG", "POPULATE", "1000", "pad", "20000"]);
    // The delay is in microseconds for each key.
    server.command(&["CONFIG", "SET", "key-load-delay", "2000"]);
    let loading = std::thread::spawn({
        let url = server.url();
        move || {
            let mut connection =
                redis::Client::open(url).expect("a URL").get_connection().expect("a connection");
            redis::cmd("DEBUG").arg("RELOAD").query::<()>(&mut connection)
        }
    });
    wait_until("the server loads", PATIENCE, async || {
        server.try_command(&["GET", "k"]).is_err_and(|error| error.code() == Some("LOADING"))
    })
    .await;
    temporary(&try_once(&locks, "k").await.expect_err("it loads"), "LOADING");
    // A connection takes several round trips here, and each waits for the next 2 MB.
    let impatient = format!("{}?connect_timeout=50ms", server.url());
    let error = lock_core::LockManager::connect(&impatient).await.expect_err("it loads");
    assert!(error.is_temporary(), "{error}");
    // By default the client waits until the server is loaded.
    cycle(&connect(&server.url()).await, "k").await;
    loading.join().expect("no panic").expect("it is loaded");
    works_again(&locks, "k").await;
}

#[tokio::test]
async fn out_of_memory_refuses_locks_and_not_their_end() {
    let server = RedisServer::builder().config("maxmemory-policy", "noeviction").start();
    let locks = manager(&server).await;
    let ttl = ms(900);
    let guards = [
        locks.lock("released").ttl(LONG).acquire().await.expect("the key is free"),
        locks.lock("dropped").ttl(LONG).acquire().await.expect("the key is free"),
        locks.lock("renewed").ttl(ttl).acquire().await.expect("the key is free"),
    ];
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for fencing in [false, true] {
        let request = locks.lock("k").fencing(fencing).strategy(lock_core::strategy::fail_fast());
        temporary(&request.acquire().await.expect_err("no memory"), "OOM");
    }
    for request in
        [locks.read("k"), locks.write("k"), locks.semaphore("k", 2), locks.all(["k", "l"]), locks.fair("k")]
    {
        let request = request.strategy(lock_core::strategy::fail_fast());
        temporary(&request.acquire().await.expect_err("no memory"), "OOM");
    }
    tokio::time::sleep(2 * ttl).await;
    let [released, dropped, renewed] = guards;
    temporary(&released.fencing_token().await.expect_err("no memory"), "OOM");
    renewed.check().expect("renewals need no memory");
    assert_eq!(released.release().await.expect("an answer"), Released::Released);
    assert_eq!(renewed.release().await.expect("an answer"), Released::Released);
    drop(dropped);
    empty(&server, PATIENCE).await;
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    cycle(&locks, "k").await;
}

/// A process numbers its own hand-offs, and sends the numbers with renewals and releases. The server accepts the
/// numbers even without free memory, because the script has already written. No caller would see a refusal.
#[tokio::test]
async fn the_last_fencing_token_of_a_process_is_noted_without_memory() {
    let server = RedisServer::builder().config("maxmemory-policy", "noeviction").start();
    let (locks, others) = (manager(&server).await, manager(&server).await);
    let noted = || {
        let text: String = server.get(&["GET", "{k}:f"]);
        let number = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        number.unwrap_or_else(|| panic!("a token: {text}"))
    };
    // The holder got the lock by a hand-off, with a number that the server does not know yet.
    let turn = async |guard: LockGuard, last: u64| {
        let scripts = calls(&server, "evalsha");
        let next = tokio::spawn(locks.lock("k").ttl(LONG).wait(LONG).acquire());
        wait_until("it lines up", PATIENCE, async || calls(&server, "evalsha") > scripts).await;
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        guard.release().await.expect("handed over");
        let guard = next.await.expect("no panic").expect("a turn of the process");
        let token = guard.fencing_token().await.expect("numbered in the process").get();
        assert!(token > last && noted() == last, "{token} after {last}, the server has {}", noted());
        (guard, token)
    };
    let guard = locks.lock("k").ttl(LONG).acquire().await.expect("the key is free");
    let first = guard.fencing_token().await.expect("an answer").get();
    // A process assigns numbers up to the time of its last renewal.
    tokio::time::sleep(ms(2)).await;
    guard.extend(LONG).await.expect("an answer");
    let (guard, second) = turn(guard, first).await;
    guard.extend(LONG).await.expect("renewals need no memory");
    assert_eq!(noted(), second);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let (guard, third) = turn(guard, second).await;
    guard.release().await.expect("releases need no memory");
    assert_eq!(noted(), third);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    cycle(&others, "k").await;
}

#[tokio::test]
async fn a_paused_server_costs_a_call_and_no_lock() {
    let server = RedisServer::start();
    let locks = connect(&format!("{}?timeout=200ms", server.url())).await;
    let kept = locks.lock("kept").ttl(Duration::from_secs(2)).acquire().await.expect("the key is free");
    server.command(&["CLIENT", "PAUSE", "600", "WRITE"]);
    let call = within(PATIENCE, "a call without an answer", try_once(&locks, "k")).await;
    let error = call.expect_err("no answer in time");
    assert!(error.is_temporary() && error.is_unavailable(), "{error}");
    works_again(&locks, "k").await;
    kept.check().expect("a renewal is tried again");
    assert_eq!(kept.release().await.expect("an answer"), Released::Released);
    empty(&server, PATIENCE).await;
}
