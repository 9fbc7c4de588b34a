//! Measures locks with several holders at once: 64 readers of one key, and 64 tasks on 8 permits.

use lock_core::LockManager;

use crate::Scale;
use crate::hot::round;
use crate::player::Section;
use crate::rig::Server;
use crate::score::{Table, load};

const TASKS: usize = 64;

pub(crate) async fn run(server: &Server, scale: Scale) {
    println!(
        "one key, {TASKS} tasks of one process, section that yields once ({} rounds of {:?}, medians; ratios are to the first row)",
        scale.rounds, scale.window
    );
    let (memory, redis) =
        (LockManager::in_memory(), LockManager::connect(&server.url()).await.expect("connects"));
    // The sections yield. On the memory store, an empty section ends before another task can request the key.
    let section = Section::Yield;
    let mut table = Table::default();
    for _ in 0..scale.rounds {
        for kind in ["read", "semaphore8"] {
            let scores = round(&memory, kind, TASKS, section, scale.window).await;
            table.add(&format!("{kind}, memory"), &scores, scale.window, None);
            let before = load(server).await;
            let scores = round(&redis, kind, TASKS, section, scale.window).await;
            let load = load(server).await.since(before);
            table.add(&format!("{kind}, redis"), &scores, scale.window, Some(load));
        }
    }
    table.print();
}
