//! Tests what the log omits: repeated warnings, and private keys.

use lock_core::testkit::{Fault, Operation};
use lock_core::{LockManager, strategy};
use tracing::Level;

use crate::subscriber::Log;
use crate::{TEMPLATE, flaky, order, patient, secs};

#[tokio::test(start_paused = true)]
async fn warnings_that_repeat_are_counted() {
    let (log, _here) = Log::here();
    let locks = LockManager::in_memory();
    let _guard = order(&locks).acquire().await.unwrap();
    let _other = locks.lock("other").acquire().await.unwrap();
    for _ in 0..25 {
        assert!(patient(&locks, secs(1)).acquire().await.is_err());
    }
    let brief = locks.lock("other").strategy(strategy::retry().within(secs(1)));
    assert!(brief.acquire().await.is_err(), "of another template");
    let warnings = log.events(Level::WARN);
    let told: Vec<_> =
        warnings.iter().map(|told| (told.field("lock.template"), told.field("left_out"))).collect();
    assert_eq!(told, [(TEMPLATE, ""), (TEMPLATE, "9"), (TEMPLATE, "9"), ("", "")]);
}

/// The test causes every message, for a key that no message may contain.
#[tokio::test(start_paused = true)]
async fn a_private_key_is_nowhere_in_spans_and_log() {
    for redact in [true, false] {
        let (log, _here) = Log::here();
        let (locks, control) =
            flaky(|builder| builder.redact_keys(redact).warn_held_after(secs(1)).log_waited_after(secs(0)));
        let guard = order(&locks).ttl(secs(3)).acquire().await.unwrap();
        assert!(order(&locks).acquire().await.is_err());
        assert!(patient(&locks, secs(1)).acquire().await.is_err());
        assert!(order(&locks).strategy(strategy::shed(strategy::retry(), 0)).acquire().await.is_err());
        control.fail_next(Operation::Release, Fault::LoseRequest, 9);
        assert!(guard.release().await.is_err());
        tokio::time::sleep(secs(10)).await;
        control.heal();
        let guard = order(&locks).ttl(secs(3)).acquire().await.unwrap();
        control.fail_always(Operation::Renew, Fault::LoseRequest);
        guard.lost().await;
        control.heal();
        drop(guard);
        for fault in [Operation::Acquire, Operation::Latch] {
            control.fail_next(fault, Fault::LoseRequest, 3);
        }
        drop(patient(&locks, secs(5)).acquire().await.unwrap());
        locks.latch("secret-latch").set(1).await.unwrap();
        let writer = locks.write("order:secret-7").template(TEMPLATE).acquire().await.unwrap();
        control.fail_next(Operation::Downgrade, Fault::LoseRequest, 1);
        drop(writer.downgrade().await.unwrap());
        let text = log.text();
        assert_eq!(text.contains("secret"), !redact, "{text}");
        assert!(!log.events(Level::ERROR).is_empty() && log.events(Level::WARN).len() >= 6, "{text}");
        if redact {
            assert!(log.spans("lock.hold").iter().all(|span| span.field("lock.key") == TEMPLATE));
        }
    }
}
