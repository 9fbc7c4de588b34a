//! The ways in which a lock can end, apart from an awaited release.

use std::time::Duration;

use lock_core::{LockGuard, LockManager};

use crate::{Options, runtime, wait_for_line};

const TTL: Duration = Duration::from_secs(60);

/// Acquires the lock, and ends it as `--how` says.
pub(crate) fn end(options: &Options) {
    // Panics here are intended.
    std::panic::set_hook(Box::new(|_| {}));
    let how: fn(&str, &str) = match options.text("--how") {
        "outside" => outside,
        "unwinding" => unwinding,
        "unwinding-outside" => unwinding_outside,
        "unwinding-task" => unwinding_task,
        "with-its-runtime" => with_its_runtime,
        "after-its-runtime" => after_its_runtime,
        "last-statement" => last_statement,
        "body" => body,
        "shutdown" => return shutdown(options, false),
        "shutdown-while-held" => return shutdown(options, true),
        other => {
            println!("NO WAY {other}");
            return;
        }
    };
    // The panic is on a separate thread and must stay within it. Most threads of a service are not the main thread.
    let key = options.text("--key").to_owned();
    let url = options.text("--url").to_owned();
    let ended = std::thread::spawn(move || how(&url, &key)).join();
    let wanted = options.text("--how").starts_with("unwinding");
    if ended.is_err() == wanted {
        println!("ENDED");
    } else {
        println!("NOT AS WANTED: panicked is {}", ended.is_err());
    }
    wait_for_line();
}

async fn take(url: &str, key: &str) -> (LockManager, LockGuard) {
    let locks = LockManager::connect(url).await.expect("the server takes locks");
    let guard = locks.lock(key).ttl(TTL).acquire().await.expect("the key is free");
    println!("HELD");
    wait_for_line();
    (locks, guard)
}

fn outside(url: &str, key: &str) {
    let runtime = runtime();
    let (locks, guard) = runtime.block_on(take(url, key));
    drop(guard);
    drop(locks);
}

fn unwinding(url: &str, key: &str) {
    let runtime = runtime();
    runtime.block_on(async {
        let _held = take(url, key).await;
        panic!("on purpose");
    });
}

fn unwinding_outside(url: &str, key: &str) {
    let runtime = runtime();
    let _held = runtime.block_on(take(url, key));
    // Unwinding drops the guard before the runtime, and outside of the runtime.
    panic!("on purpose");
}

fn unwinding_task(url: &str, key: &str) {
    let runtime = runtime();
    let (url, key) = (url.to_owned(), key.to_owned());
    let task = runtime.spawn(async move {
        let _held = take(&url, &key).await;
        panic!("on purpose");
    });
    runtime.block_on(task).expect("a panic");
}

/// Makes the runtime drop a task in the middle of a pause.
fn with_its_runtime(url: &str, key: &str) {
    let runtime = runtime();
    let held = runtime.block_on(take(url, key));
    runtime.spawn(async move {
        std::future::pending::<()>().await;
        drop(held);
    });
    runtime.block_on(tokio::task::yield_now());
    drop(runtime);
}

fn after_its_runtime(url: &str, key: &str) {
    let runtime = runtime();
    let held = runtime.block_on(take(url, key));
    drop(runtime);
    drop(held);
}

fn last_statement(url: &str, key: &str) {
    let runtime = runtime();
    runtime.block_on(async {
        let (_locks, guard) = take(url, key).await;
        drop(guard);
    });
}

fn body(url: &str, key: &str) {
    let runtime = runtime();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (url, key) = (url.to_owned(), key.to_owned());
    let locks = runtime.block_on(LockManager::connect(&url)).expect("the server takes locks");
    runtime.spawn(async move {
        let body = async {
            println!("HELD");
            begun.send(()).expect("somebody waits");
            std::future::pending::<()>().await;
        };
        locks.lock(key).ttl(TTL).run(body).await
    });
    while has_begun.try_recv().is_err() {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }
    wait_for_line();
    drop(runtime);
}

/// Shuts the manager down, and lets the process exit immediately.
fn shutdown(options: &Options, while_held: bool) {
    let (url, key) = (options.text("--url"), options.text("--key"));
    runtime().block_on(async {
        let (locks, guard) = take(url, key).await;
        let mut guard = Some(guard);
        if !while_held {
            drop(guard.take());
        }
        let report = locks.shutdown(Duration::from_millis(300)).await;
        assert_eq!((report.revoked.len(), report.unanswered), (usize::from(while_held), 0));
        println!("ENDED");
        std::process::exit(0);
    });
}
