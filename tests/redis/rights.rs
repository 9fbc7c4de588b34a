//! The rights of a user. The connect names missing rights, and nothing is locked that cannot be released.

use lock_core::{LockErrorKind, LockGuard, LockManager, Released, strategy};
use lock_tests::{CHECKED, PATIENCE, RedisServer, wait_until};

use crate::support::{LONG, connect};

/// Gives the user all rights except these.
fn allow(server: &RedisServer, without: &[&str]) {
    let mut command = vec!["ACL", "SETUSER", "app", "reset", "on", ">s3cret", "~*", "&*", "+@all"];
    let without: Vec<String> = without.iter().map(|name| format!("-{name}")).collect();
    command.extend(without.iter().map(String::as_str));
    server.command(&command);
}

#[tokio::test]
async fn every_right_that_lacks_is_named_when_the_library_connects() {
    let server = RedisServer::start();
    let url = server.url_for("app", "s3cret");
    for name in CHECKED.into_iter().chain(["script|load"]) {
        allow(&server, &[name]);
        let error = LockManager::connect(&url).await.expect_err(name);
        assert_eq!(error.kind(), LockErrorKind::Unavailable, "{name}: {error}");
        let shown = format!("`{}` (NOPERM)", name.to_uppercase().replace('|', " "));
        assert!(!error.is_temporary() && error.to_string().contains(&shown), "{name}: {error}");
    }
    allow(&server, &["hget", "evalsha", "zadd", "script|load"]);
    let error = LockManager::connect(&url).await.expect_err("four lack");
    assert!(error.to_string().contains("`SCRIPT LOAD`, `EVALSHA`, `HGET`, `ZADD`"), "{error}");
    allow(&server, &[]);
    connect(&url).await;
    assert!(server.keys().is_empty(), "a check leaves nothing behind");
}

#[tokio::test]
async fn a_command_that_the_server_does_not_know_is_named_too() {
    let server = RedisServer::builder().configs("rename-command", &["EVALSHA", ""]).start();
    let error = LockManager::connect(&server.url()).await.expect_err("nothing could be released");
    assert_eq!(error.kind(), LockErrorKind::Unsupported, "{error}");
    assert!(!error.is_temporary() && error.to_string().contains("`EVALSHA` (unknown command)"), "{error}");
}

/// A right is revoked later. The calls report this, and do not invent an answer.
#[tokio::test]
async fn no_script_takes_a_refusal_for_an_answer() {
    let server = RedisServer::start();
    allow(&server, &[]);
    let locks = connect(&server.url_for("app", "s3cret")).await;
    let admin = connect(&server.url()).await;
    let mut number = 0;
    for name in CHECKED {
        for kind in 0..4 {
            number += 1;
            let key = format!("{name}:{kind}");
            let request = match kind {
                0 => locks.lock(&key),
                1 => locks.semaphore(&key, 2),
                2 => locks.read(&key),
                _ => locks.fair(&key),
            };
            let guard =
                request.ttl(LONG).strategy(strategy::fail_fast()).acquire().await.expect("all rights");
            if number % 2 == 0 {
                guard.fencing_token().await.expect("all rights");
            }
            allow(&server, &[name]);
            guard.check().expect("it is held");
            // The call returns an error or the true state.
            if let Err(error) = guard.extend(LONG).await {
                assert!(!error.is_lost(), "{key}: {error}");
            }
            match locks.inspect(&key).await {
                Ok(found) => assert!(found.is_some(), "{key} looks free"),
                Err(error) => assert!(error.to_string().contains("permission"), "{key}: {error}"),
            }
            released(guard, &key).await;
            allow(&server, &[]);
            let held = admin.is_locked(&key).await.expect("all rights");
            if held {
                server.command(&["DEL", &key]);
            }
        }
    }
}

/// A queue that the user may not read is not an empty queue, because its waiters would not be served.
#[tokio::test]
async fn a_release_passes_on_that_the_queue_may_not_be_read() {
    let server = RedisServer::start();
    allow(&server, &[]);
    let locks = connect(&server.url_for("app", "s3cret")).await;
    let others = connect(&server.url()).await;
    let guard = locks.lock("k").ttl(LONG).acquire().await.expect("all rights");
    let waiting = tokio::spawn(others.lock("k").wait(PATIENCE).acquire());
    wait_until("it waits", PATIENCE, async || server.keys().contains(&"{k}:q".to_owned())).await;
    allow(&server, &["zrange"]);
    let error = guard.release().await.expect_err("it may not look who waits");
    assert!(error.is_unavailable() && error.to_string().contains("permission"), "{error}");
    allow(&server, &[]);
    waiting.await.expect("no panic").expect("it is free").release().await.expect("all rights");
}

/// Releases, and checks that the answer does not belong to another owner.
async fn released(guard: LockGuard, key: &str) {
    match guard.release().await {
        Ok(answer) => assert_eq!(answer, Released::Released, "{key}"),
        Err(error) => assert!(!error.is_lost() && error.is_unavailable(), "{key}: {error}"),
    }
}
