//! Runs an exact number of cycles of one kind, for a tool that counts instructions.

use std::sync::Arc;

use lock_core::LockManager;

use crate::cycles::{cycle, load, raw};
use crate::memory::{lock, lock_key, locks, mutexes};
use crate::rig::Server;

/// Runs a number of cycles, divided among the tasks. Each task has its own key unless the name of the kind begins with
/// `hot`.
pub(crate) fn run(arguments: &[String]) {
    let [kind, tasks, cycles, ..] = arguments else { panic!("count <kind> <tasks> <cycles>") };
    let (tasks, cycles): (usize, usize) =
        (tasks.parse().expect("a number of tasks"), cycles.parse().expect("a number of cycles"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let each = cycles / tasks;
        match kind.as_str() {
            "mutex" => {
                let mutexes = mutexes(tasks);
                repeat(tasks, each, move |task| lock(Arc::clone(&mutexes), task)).await;
            }
            "memory" => {
                let locks = locks(tasks);
                let cycle = move |task| lock_key(Arc::clone(&locks), task);
                repeat(tasks, each, cycle).await;
            }
            "hot" => {
                let locks = LockManager::in_memory();
                repeat(tasks, each, move |_| {
                    let locks = locks.clone();
                    async move {
                        let guard = locks.lock("k").acquire().await.expect("memory answers");
                        tokio::task::yield_now().await;
                        guard.release().await.expect("memory answers");
                    }
                })
                .await;
            }
            "hot-mutex" => {
                let mutex = Arc::new(tokio::sync::Mutex::new(()));
                repeat(tasks, each, move |_| {
                    let mutex = Arc::clone(&mutex);
                    async move {
                        let guard = mutex.lock().await;
                        tokio::task::yield_now().await;
                        drop(guard);
                    }
                })
                .await;
            }
            "redis" => {
                let server = Server::start();
                let locks = LockManager::connect(&server.url()).await.expect("connects");
                repeat(tasks, each, cycle(locks, false)).await;
            }
            "raw" => {
                let server = Server::start();
                let mut connection = server.connection().await;
                let sha = load(&mut connection).await;
                repeat(tasks, each, raw(connection, sha)).await;
            }
            other => panic!("{other} is none of mutex, memory, hot-mutex, hot, redis, raw"),
        }
    });
}

async fn repeat<F, Fut>(tasks: usize, times: usize, cycle: F)
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let task = |task| {
        let cycle = cycle.clone();
        tokio::spawn(async move {
            for _ in 0..times {
                cycle(task).await;
            }
        })
    };
    for running in (0..tasks).map(task).collect::<Vec<_>>() {
        running.await.expect("a cycle does not panic");
    }
}
