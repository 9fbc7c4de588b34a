use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockManager, Profile, strategy};

use crate::millis;

#[track_caller]
fn refused(error: &LockError, kind: LockErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
    }
}

#[tokio::test]
async fn each_bad_request_is_a_distinct_error_that_says_what_to_do() {
    use LockErrorKind::{InvalidKey, InvalidRequest};
    let locks = LockManager::builder(lock_core::backend::memory::Memory::new())
        .profile("checkout", Profile::new())
        .build()
        .unwrap();
    let cases = [
        (locks.lock(""), InvalidKey, vec!["empty"]),
        (locks.lock("k").ttl(Duration::ZERO), InvalidRequest, vec!["ttl is 0", "`k`"]),
        (locks.lock("k").ttl(Duration::from_nanos(1)), InvalidRequest, vec!["ttl is 1ns", "memory"]),
        (
            locks.lock("k").strategy(strategy::fail_fast()).wait(millis(2_000)),
            InvalidRequest,
            vec!["wait is 2s", "`fail_fast`", "retry"],
        ),
        (locks.lock("k").strategy(strategy::wait()).wait(millis(1)), InvalidRequest, vec!["`wait`"]),
        (locks.lock("k").max_hold(Duration::ZERO), InvalidRequest, vec!["max_hold is 0"]),
        (
            locks.lock("k").max_hold(millis(1)).min_hold(millis(2)),
            InvalidRequest,
            vec!["min_hold", "max_hold"],
        ),
        (
            locks.lock("k").renew(false).min_hold(millis(20_000)),
            InvalidRequest,
            vec!["min_hold", "not renewed"],
        ),
        (locks.lock("k").profile("chekout"), InvalidRequest, vec!["`chekout`", "checkout"]),
        (locks.semaphore("k", 0), InvalidRequest, vec!["0 permits"]),
        (locks.lock("k").min_hold(Duration::MAX), InvalidRequest, vec!["min_hold", "memory", "at most"]),
        (
            locks.all((0..101).map(|number| format!("k{number}"))),
            InvalidRequest,
            vec!["101 keys", "100 are allowed", "max_keys"],
        ),
    ];
    for (request, kind, words) in cases {
        refused(&request.clone().acquire().await.unwrap_err(), kind, &words);
        let ran = request.run(async { panic!("the body ran") }).await;
        refused(&ran.unwrap_err(), kind, &words);
    }
    assert_eq!(locks.held(), 0);
}

/// A server executes nothing else while a script visits all keys of a request, so a manager limits the number of keys.
#[tokio::test]
async fn how_many_keys_a_request_may_have_is_the_managers() {
    let builder = |max| LockManager::builder(lock_core::backend::memory::Memory::new()).max_keys(max);
    let keys = |count| (0..count).map(|number| format!("k{number}"));
    let locks = builder(3).build().unwrap();
    locks.all(keys(3)).acquire().await.unwrap().release().await.unwrap();
    // A repeated key counts once.
    locks.all(keys(3).chain(keys(3))).check().unwrap();
    refused(
        &locks.all(keys(4)).check().unwrap_err(),
        LockErrorKind::InvalidRequest,
        &["4 keys", "3 are allowed"],
    );
    builder(1_000).build().unwrap().all(keys(1_000)).check().unwrap();
    for max in [0, 1_001] {
        refused(
            &builder(max).build().unwrap_err(),
            LockErrorKind::InvalidRequest,
            &["max_keys", "1 to 1000"],
        );
    }
}

#[tokio::test]
async fn urls() {
    use LockErrorKind::{InvalidRequest, Unsupported};
    let lacks = if cfg!(feature = "zookeeper") { "GSSAPI" } else { "`zookeeper`" };
    let cases = [
        ("localhost", InvalidRequest, "://"),
        ("redsi://127.0.0.1", InvalidRequest, "`redsi`"),
        ("memory://x", InvalidRequest, "memory://"),
        ("etdc://user:s3cret@127.0.0.1", InvalidRequest, "`etdc`"),
        ("zookeepers://user:s3cret@127.0.0.1?auth=gssapi", Unsupported, lacks),
    ];
    for (url, kind, word) in cases {
        let error = LockManager::connect(url).await.unwrap_err();
        refused(&error, kind, &[word]);
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
    assert_eq!(LockManager::connect("memory://").await.unwrap().store(), "memory");
}

#[test]
fn builders() {
    let build = |namespace: &str| {
        LockManager::builder(lock_core::backend::memory::Memory::new()).namespace(namespace).build()
    };
    refused(&build("a b").unwrap_err(), LockErrorKind::InvalidRequest, &["namespace"]);
    let error = LockManager::builder(lock_core::backend::memory::Memory::new())
        .strategy(strategy::skip())
        .wait(millis(5))
        .build()
        .unwrap_err();
    refused(&error, LockErrorKind::InvalidRequest, &["`skip`"]);
}

#[test]
fn outside_a_runtime_is_an_error_not_a_panic() {
    let locks = LockManager::in_memory();
    let mut acquire = std::pin::pin!(locks.lock("k").acquire());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(answer) = acquire.as_mut().poll(&mut cx) else {
        panic!("it waits without a runtime")
    };
    refused(&answer.unwrap_err(), LockErrorKind::InvalidRequest, &["tokio runtime"]);
}
