//! Compares the memory store with a tokio `Mutex`.

use std::sync::Arc;

use lock_core::LockManager;
use lock_core::key::Key;
use tokio::sync::Mutex;

use crate::rig::{round, rounds};
use crate::{ROUNDS, WINDOW, tasks_of};

pub(crate) type Mutexes = Arc<Vec<Mutex<()>>>;
pub(crate) type Locks = Arc<(LockManager, Vec<Key>)>;

pub(crate) fn mutexes(tasks: usize) -> Mutexes {
    Arc::new((0..tasks).map(|_| Mutex::new(())).collect())
}

pub(crate) async fn lock(mutexes: Mutexes, task: usize) {
    drop(mutexes[task].lock().await);
    tokio::task::consume_budget().await;
}

/// Returns a manager and the keys of the tasks. They are created before the measurement, like the mutexes.
pub(crate) fn locks(tasks: usize) -> Locks {
    let keys = (0..tasks).map(|task| Key::new(&format!("bench:{task}")).expect("a key")).collect();
    Arc::new((LockManager::in_memory(), keys))
}

pub(crate) async fn lock_key(locks: Locks, task: usize) {
    let (locks, keys) = &*locks;
    let guard = locks.lock(keys[task].clone()).acquire().await.expect("nobody else has it");
    guard.release().await.expect("the store answers");
    tokio::task::consume_budget().await;
}

pub(crate) async fn run() {
    println!("memory, own keys ({ROUNDS} rounds of {WINDOW:?}, medians; ratios are to the first row)");
    for tasks in [1, 64] {
        println!(" {}", tasks_of(tasks));
        let (locks, mutexes) = (locks(tasks), mutexes(tasks));
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mutexes = Arc::clone(&mutexes);
            plain.push(round(tasks, WINDOW, None, move |task| lock(Arc::clone(&mutexes), task)).await);
            let locks = Arc::clone(&locks);
            let cycle = move |task| lock_key(Arc::clone(&locks), task);
            ours.push(round(tasks, WINDOW, None, cycle).await);
        }
        rounds("tokio Mutex", &plain, &plain);
        rounds("lock-core, memory", &ours, &plain);
    }
}
