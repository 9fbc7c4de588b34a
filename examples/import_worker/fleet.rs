//! The workers, and their crashes. A worker is a process, or a task if the store is in memory.

use std::time::Duration;

use lock_core::LockManager;
use lock_core::backend::memory::Memory;
use tokio::task::JoinSet;

use crate::common::children;
use crate::common::clock;
use crate::common::database::Result;
use crate::common::random;
use crate::common::store;
use crate::options::Options;
use crate::table::{Event, Table};
use crate::worker::{GRACE, Worker};

/// Returns the locks of a process, in the store that `LOCK_URL` names.
pub(crate) async fn locks(options: &Options) -> Result<LockManager> {
    Ok(store::connect().await?.service("import").ttl(options.ttl).build()?)
}

/// Runs one worker in this process.
pub(crate) async fn work_alone(options: &Options, number: i64, place: &str) -> Result<()> {
    let work = work(options, number, place, locks(options).await?);
    tokio::select! {
        worked = work => worked,
        // The input of this process ends when its parent process ends.
        () = children::told_to_end() => Ok(()),
    }
}

fn name_of(number: i64) -> String {
    format!("import-{number}")
}

async fn work(options: &Options, number: i64, place: &str, locks: LockManager) -> Result<()> {
    let (name, table) = (name_of(number), Table::open(place).await?);
    let worked = Worker { name, number, options: options.clone(), locks: locks.clone(), table }.work().await;
    locks.shutdown(GRACE).await;
    worked
}

/// Runs workers as tasks of this process, until all tasks are done.
pub(crate) async fn run_tasks(options: &Options, place: &str) -> Result<()> {
    let (memory, mut tasks) = (Memory::new(), JoinSet::new());
    for number in 0..options.workers {
        let locks = LockManager::builder(memory.clone()).service("import").build()?;
        let (options, place, number) = (options.clone(), place.to_owned(), i64::try_from(number)?);
        tasks.spawn(async move { work(&options, number, &place, locks).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Runs workers as processes until all tasks are done. Kills some of them at random times, and restarts them.
pub(crate) async fn run_processes(options: &Options, place: &str, table: &Table) -> Result<()> {
    let start = |number: usize| {
        let number = ["--worker".to_owned(), number.to_string()];
        children::Worker::start(&[&options.arguments[..], &number].concat(), place)
    };
    let mut workers = (0..options.workers).map(start).collect::<std::io::Result<Vec<_>>>()?;
    let mut crashes = 0;
    while crashes < options.crashes && !table.groups().await?.is_empty() {
        tokio::time::sleep(random::between(Duration::ZERO, options.crash_every * 2)).await;
        let number = usize::try_from(random::below(u64::try_from(workers.len())?))?;
        // The worker may have ended because there is no more work, or because of an error, which is reported below.
        if workers[number].has_ended() {
            if workers.iter_mut().all(children::Worker::has_ended) {
                break;
            }
            continue;
        }
        let (name, happened) = (name_of(i64::try_from(number)?), clock::now());
        workers.remove(number).kill9().await?;
        // -1 stands for no group: the worker was killed before it recorded its group.
        let group = table.was_at(&name).await?.unwrap_or(-1);
        // The restart comes before the record of the death, so that the write does not delay the worker.
        workers.insert(number, start(number)?);
        table.note(&Event { happened, worker: name, event: "killed".to_owned(), group, token: 0 }).await?;
        crashes += 1;
    }
    for mut worker in workers {
        if !worker.ended().await? {
            return Err("a worker failed".into());
        }
    }
    Ok(())
}
