//! A lock that its body releases early. The key is free on the server, and the end of the body changes nothing there.

use lock_core::{Kind, LockHandle, Released};
use lock_tests::{PATIENCE, RedisServer};

use crate::support::{LONG, empty, manager, ms, within};

#[tokio::test]
async fn a_waiter_of_another_process_has_the_lock_while_the_body_goes_on() {
    let server = RedisServer::start();
    let (here, there) = (manager(&server).await, manager(&server).await);
    for kind in [Kind::Reentrant, Kind::Fair, Kind::Read, Kind::Write, Kind::Semaphore { permits: 1 }] {
        let next = if kind == Kind::Read { Kind::Write } else { kind };
        let request = there.request("k", Some(next)).ttl(LONG).wait(PATIENCE);
        let body = here.request("k", Some(kind)).ttl(ms(900)).run_with(async |lock: LockHandle| {
            lock.extend(LONG).await.expect("it holds");
            let waiting = tokio::spawn(request.acquire());
            // The waiter is queued on the server, so the release will grant it the lock.
            lock_tests::wait_until("there is a waiter", PATIENCE, async || {
                here.inspect("k").await.expect("an answer").is_some_and(|info| info.waiting > 0)
            })
            .await;
            assert_eq!(lock.release_early().await.expect("an answer"), Released::Released, "{kind}");
            within(PATIENCE, "the grant", waiting).await.expect("the task ran").expect("granted")
        });
        let guard = body.await.expect("released early is not lost");
        let holder = there.inspect("k").await.expect("an answer").expect("held");
        assert_eq!((holder.holding, holder.waiting), (1, 0), "{kind}: the end of the body released nothing");
        assert!(guard.is_held());
        assert_eq!(guard.release().await.expect("an answer"), Released::Released, "{kind}");
    }
    server.command(&["DEL", "{k}:f"]);
    empty(&server, PATIENCE).await;
}
