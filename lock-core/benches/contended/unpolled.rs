//! Measures one key with eight tasks of one process, beside waiters whose futures are not polled.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lock_core::{LockManager, LockRequest};

use crate::Scale;
use crate::hot::nanos;
use crate::player::{Section, contend, now, request};
use crate::rig::Server;
use crate::score::Table;

const TASKS: usize = 8;

/// During the warm-up, each unpolled waiter misses one hand-off. A missed hand-off takes a quarter of a second.
const WARM_UP: Duration = Duration::from_millis(1_200);

pub(crate) async fn run(server: &Server, scale: Scale) {
    let redis = LockManager::connect(&server.url()).await.expect("connects");
    for (store, locks) in [("memory", LockManager::in_memory()), ("redis", redis)] {
        println!(
            "hot key, {TASKS} tasks of one process beside waiters that are not polled, {store} ({} rounds of {:?}, medians; \
             ratios are to the first row)",
            scale.rounds, scale.window
        );
        let mut table = Table::default();
        for _ in 0..scale.rounds {
            for unpolled in [0, 1, 3] {
                let name = if unpolled == 0 { "alone".to_owned() } else { format!("beside {unpolled}") };
                let scores = beside(&locks, unpolled, scale.window).await;
                table.add(&name, &scores, scale.window, None);
            }
        }
        table.print();
    }
}

async fn beside(locks: &LockManager, unpolled: usize, window: Duration) -> Vec<crate::score::Score> {
    let holder = request(locks, "lock").acquire().await.expect("it waits for ever");
    let mut waiting = Vec::new();
    for _ in 0..unpolled {
        waiting.push(lines_up(request(locks, "lock")).await);
    }
    drop(holder);
    let from = now() + nanos(WARM_UP);
    // The sections yield. On the memory store, one task with empty sections would acquire the key again and again, and
    // no other task would queue.
    let scores = contend(locks, "lock", TASKS, Section::Yield, (from, from + nanos(window))).await;
    drop(waiting);
    scores
}

/// Polls a request for 50 ms, in which it queues, and returns its future.
async fn lines_up(request: LockRequest) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let mut waiting: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async {
        let _guard = request.acquire().await;
    });
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err(), "it waits");
    waiting
}
