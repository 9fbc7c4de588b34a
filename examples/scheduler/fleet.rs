//! The schedulers, their crashes and their pauses. A scheduler is a process, or a task if the store is in memory.

use std::sync::Arc;
use std::time::Duration;

use lock_core::LockManager;
use lock_core::backend::memory::Memory;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use crate::common::children::{self, Worker};
use crate::common::clock::{self, Micros};
use crate::common::database::{Error, Result};
use crate::common::random;
use crate::common::store;
use crate::journal;
use crate::options::Options;
use crate::scheduler::{JOB, Scheduler};
use crate::table::{Event, Run, Table};

/// Returns the locks of a process, in the store that `LOCK_URL` names.
pub(crate) async fn locks(options: &Options) -> Result<LockManager> {
    Ok(store::connect().await?.service("scheduler").ttl(options.plan().ttl()).build()?)
}

/// Runs one scheduler in this process, until its input ends.
pub(crate) async fn serve_alone(options: &Options, name: &str, place: &str) -> Result<()> {
    let locks = locks(options).await?;
    let name = format!("{name}{}", suffix(std::process::id()));
    serve(options, name, place, locks, children::told_to_end()).await
}

async fn serve(
    options: &Options,
    name: String,
    place: &str,
    locks: LockManager,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let journal = journal::write(locks.events(), name.clone(), Table::open(place, JOB).await?);
    let journal = tokio::spawn(journal);
    let scheduler = Scheduler {
        key: if options.careless { format!("{JOB}:{name}") } else { JOB.to_owned() },
        name,
        locks: locks.clone(),
        table: Table::open(place, JOB).await?,
        plan: options.plan(),
        clock: Arc::new(clock::now),
    };
    let served = scheduler.serve(stop).await;
    locks.shutdown(Duration::from_secs(2)).await;
    // The stream of events ends with the manager.
    let _ = journal.await;
    served
}

/// Runs schedulers as tasks of this process, for the time of the options.
pub(crate) async fn run_tasks(options: &Options, place: &str) -> Result<()> {
    let (memory, mut tasks) = (Memory::new(), JoinSet::new());
    let (stop, _) = watch::channel(());
    for number in 1..=options.processes {
        let locks = LockManager::builder(memory.clone()).service("scheduler").build()?;
        let (options, place, mut stopped) = (options.clone(), place.to_owned(), stop.subscribe());
        tasks.spawn(async move {
            let stop = async move { drop(stopped.changed().await) };
            serve(&options, format!("scheduler-{number}"), &place, locks, stop).await
        });
    }
    tokio::time::sleep(options.time).await;
    drop(stop);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// The schedulers in separate processes.
pub(crate) struct Processes<'a> {
    options: &'a Options,
    table: &'a Table,
    place: &'a str,
    workers: Vec<Worker>,
    kills: u64,
}

impl<'a> Processes<'a> {
    pub(crate) fn start(options: &'a Options, table: &'a Table, place: &'a str) -> Result<Self> {
        let workers = (0..options.processes).map(|number| worker(options, place, number));
        Ok(Self { options, table, place, workers: workers.collect::<Result<_>>()?, kills: 0 })
    }

    /// Runs the schedulers for the time of the options. Kills and pauses them as often as the options say.
    pub(crate) async fn run(mut self) -> Result<()> {
        let (mut kill, mut pause) = (every(self.options.kill_every), every(self.options.pause_every));
        // The first tick of an interval is immediate, so it is skipped.
        tokio::join!(kill.tick(), pause.tick());
        let over = tokio::time::sleep(self.options.time);
        tokio::pin!(over);
        while self.options.kills != Some(self.kills) {
            let next = async {
                let kills = tokio::select! {
                    _ = kill.tick() => true,
                    _ = pause.tick() => false,
                };
                Ok::<_, Error>((kills, self.holder().await?))
            };
            let (kills, holder) = tokio::select! {
                () = &mut over => break,
                next = next => next?,
            };
            if kills { self.kill(holder).await? } else { self.pause(holder).await? }
        }
        self.last_run_is_finished().await?;
        for worker in self.workers {
            if !worker.stop().await? {
                return Err("a scheduler failed".into());
            }
        }
        Ok(())
    }

    /// Waits until the last run is finished, for at most ten seconds. If a kill or the loss of the lock interrupted the
    /// run, another scheduler continues it.
    async fn last_run_is_finished(&self) -> Result<()> {
        for _ in 0..1_000 {
            if self.table.last_run().await?.is_none_or(|run| run.outcome == "finished") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Waits until a worker runs the job.
    async fn holder(&self) -> Result<Holder> {
        loop {
            let running = self.table.last_run().await?.filter(|run| run.outcome == "running");
            if let Some(Run { fence, worker, .. }) = running
                && let Some(number) =
                    self.workers.iter().position(|other| worker.ends_with(&suffix(other.id())))
            {
                return Ok(Holder { number, worker, fence });
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills the worker that runs the job, and starts another worker in its place.
    async fn kill(&mut self, holder: Holder) -> Result<()> {
        // The kill happens at a random time of the run, which takes at least half of the estimate. The worker has
        // recorded its grant before that time.
        let (shortest, longest) = (Duration::from_millis(20), self.options.plan().estimate / 2);
        tokio::time::sleep(random::between(shortest, longest)).await;
        // The wait has a limit, because the record of the grant may be lost if the database failed for a moment.
        for _ in 0..200 {
            if self.table.is_granted(holder.fence).await? {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let next = worker(self.options, self.place, holder.number)?;
        let killed = std::mem::replace(&mut self.workers[holder.number], next);
        let happened = clock::now();
        killed.kill9().await?;
        // The run may have finished just before the kill.
        let run = self.table.run(holder.fence).await?;
        let in_the_middle = run.is_some_and(|run| run.outcome == "running");
        self.kills += u64::from(in_the_middle);
        let detail = if in_the_middle { "in the middle of its run" } else { "just after its run" };
        self.note(happened, holder, "killed", detail).await
    }

    /// Stops the worker that runs the job, for longer than its lease.
    async fn pause(&self, holder: Holder) -> Result<()> {
        let (number, time) = (holder.number, self.options.plan().ttl() * 2);
        self.note(clock::now(), holder, "paused", &format!("for {time:?}")).await?;
        Ok(self.workers[number].pause(time).await?)
    }

    async fn note(&self, happened: Micros, holder: Holder, event: &str, detail: &str) -> Result<()> {
        let Holder { worker, fence, .. } = holder;
        let (event, detail) = (event.to_owned(), detail.to_owned());
        self.table.note(&Event { happened, worker, event, token: fence, detail }).await
    }
}

/// The worker that runs the job.
struct Holder {
    number: usize,
    worker: String,
    fence: i64,
}

fn every(time: Option<Duration>) -> Interval {
    let mut interval = tokio::time::interval(time.unwrap_or(Duration::from_secs(1_000_000_000)));
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Returns the suffix of a process's name. With it, two processes with one number have different names.
fn suffix(id: u32) -> String {
    format!("/{id}")
}

fn worker(options: &Options, place: &str, number: usize) -> Result<Worker> {
    let name = ["--worker".to_owned(), format!("scheduler-{}", number + 1)];
    Ok(Worker::start(&[&options.arguments[..], &name].concat(), place)?)
}
