//! A process that forks while it holds locks, and what its child can do with its copies of the guards.
//!
//! Every operation on what the child has from its parent is polled once, without a runtime: an operation that is ready
//! at once has not asked the store.

use std::io::Write;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use lock_core::{LockError, LockGuard, LockManager, Result, ShutdownReport};

use crate::{Options, runtime, wait_for_line};

const TTL: Duration = Duration::from_secs(60);

/// Acquires four locks, forks, lets the child try its operations, and releases the locks after a line.
pub(crate) fn fork_while_held(options: &Options) {
    let runtime = runtime();
    let (locks, guards) = runtime.block_on(take(options.text("--url")));
    println!("HELD");
    wait_for_line();
    let guards = in_child(guards, |guards| try_all(&locks, guards));
    println!("FORKED");
    wait_for_line();
    runtime.block_on(async {
        for guard in guards {
            guard.check().expect("it is held");
            guard.extend(TTL).await.expect("it is held");
            guard.fencing_token().await.expect("it is held");
            guard.release().await.expect("an answer");
        }
    });
    println!("RELEASED");
}

async fn take(url: &str) -> (LockManager, Vec<LockGuard>) {
    let locks = LockManager::connect(url).await.expect("the server takes locks");
    let mut guards = Vec::new();
    for key in ["used", "released", "dropped"] {
        guards.push(locks.lock(key).ttl(TTL).acquire().await.expect("the key is free"));
    }
    guards.push(locks.write("downgraded").ttl(TTL).acquire().await.expect("the key is free"));
    (locks, guards)
}

fn try_all(locks: &LockManager, guards: Vec<LockGuard>) {
    let [used, released, dropped, downgraded] = <[LockGuard; 4]>::try_from(guards).expect("four of them");
    let handle = used.handle();
    tell("check", once(async { used.check() }));
    tell("extend", once(used.extend(TTL)));
    tell("fencing_token", once(used.fencing_token()));
    tell("run", once(used.run(async {})));
    tell("handle.check", once(async { handle.check() }));
    tell("handle.fencing_token", once(handle.fencing_token()));
    tell("release", once(released.release()));
    tell("downgrade", once(downgraded.downgrade()));
    tell("acquire", once(locks.lock("another").acquire()));
    tell("try_acquire", once(locks.lock("another").try_acquire()));
    tell("inspect", once(locks.inspect("used")));
    tell("is_locked", once(locks.is_locked("used")));
    tell("locks", once(locks.locks()));
    drop(dropped);
    println!("CHILD drop Ok");
    let shutdown = async { Ok(locks.shutdown(TTL).await) };
    tell("shutdown", once(shutdown).map_ok(|report| assert_eq!(report, ShutdownReport::default())));
    // A manager and a runtime of its own work there, and are refused to a child in turn.
    let runtime = runtime();
    let own = LockManager::in_memory();
    let acquire = || runtime.block_on(async { own.lock("another").try_acquire().await });
    tell("own manager", Poll::Ready(acquire()));
    in_child((), |()| tell("own child", Poll::Ready(acquire())));
    tell("own manager again", Poll::Ready(acquire()));
}

/// Forks while two requests wait for locks, and once more when they were handed the grants. The child of each time polls
/// its copies, and then the parent does.
pub(crate) fn fork_while_waiting() {
    let runtime = runtime();
    let _context = runtime.enter();
    let locks = LockManager::in_memory();
    let keys = ["plain", "fenced"];
    let request = |key: &'static str| {
        let request = locks.lock(key).ttl(TTL).strategy(lock_core::strategy::wait()).fencing(key == "fenced");
        Box::pin(request.acquire())
    };
    let mut waiting = keys.map(request);
    let guards = keys.map(|key| {
        runtime.block_on(async { locks.lock(key).ttl(TTL).acquire().await.expect("the key is free") })
    });
    let mut poll_all = |who: &str| {
        for (key, waiting) in keys.iter().zip(&mut waiting) {
            let outcome = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            tell(&format!("{who} {key}"), outcome.map_ok(drop));
        }
    };
    poll_all("waits");
    let guards = in_child(guards, |guards| {
        drop(guards);
        poll_all("dropped");
    });
    drop(guards);
    in_child((), |()| poll_all("handed"));
    poll_all("parent");
}

/// Runs `try_in` in a forked child, with its copy of `value`, and returns that of the parent.
fn in_child<T>(value: T, try_in: impl FnOnce(T)) -> T {
    let _ = std::io::stdout().flush();
    match fork().expect("a second process") {
        Fork::Child => {
            try_in(value);
            let _ = std::io::stdout().flush();
            std::process::exit(0);
        }
        Fork::Parent(child) => {
            assert_eq!(waitpid(child).expect("the child ends"), 0, "as it should");
            value
        }
    }
}

/// Returns the result of `operation` if it is known without waiting.
fn once<T>(operation: impl Future<Output = Result<T>>) -> Poll<Result<T>> {
    pin!(operation).poll(&mut Context::from_waker(Waker::noop()))
}

fn tell<T>(operation: &str, outcome: Poll<Result<T>>) {
    let outcome = match outcome {
        Poll::Ready(outcome) => {
            outcome.err().map_or("Ok".to_owned(), |error: LockError| format!("{:?} {error}", error.kind()))
        }
        Poll::Pending => "Pending".to_owned(),
    };
    println!("CHILD {operation} {outcome}");
}
