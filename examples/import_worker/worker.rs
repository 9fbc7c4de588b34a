//! One worker of several.

use std::time::Duration;

use lock_core::{LockHandle, LockManager, LockRequest, strategy};

use crate::common::children;
use crate::common::clock;
use crate::common::database::Result;
use crate::common::random;
use crate::options::{Care, Options};
use crate::table::{Event, Holder, Table};

pub(crate) struct Worker {
    /// The name of the worker. It is the same after a restart, so that the worker finds its group.
    pub(crate) name: String,
    pub(crate) number: i64,
    pub(crate) options: Options,
    pub(crate) locks: LockManager,
    pub(crate) table: Table,
}

impl Worker {
    /// Works until all tasks are done.
    pub(crate) async fn work(&self) -> Result<()> {
        while let Some(group) = self.next_group().await? {
            // The group is recorded before the lock is requested, so that this process finds its group after a crash.
            self.table.at(&self.name, group).await?;
            if self.options.care == Care::NoLock {
                self.next_task(group, 0).await?;
                continue;
            }
            match self.request(group).run_with(|lease| self.under_lock(group, lease)).await {
                Ok(result) => result?,
                // Another worker continues at the checkpoint, and this worker requests the lock again.
                Err(error) if error.is_lost() => self.note("lost", group, 0).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns the request for the lock of a group. The request waits without polling, because the store notifies the
    /// waiter.
    fn request(&self, group: i64) -> LockRequest {
        let request = self.locks.lock(format!("import:{group}")).ttl(self.options.ttl);
        request.strategy(strategy::wait()).fencing(true).label(self.name.clone())
    }

    /// Returns the group to work at: the last group of this worker, or else an unfinished group. The number of the
    /// worker decides where the search for an unfinished group begins.
    async fn next_group(&self) -> Result<Option<i64>> {
        let groups = self.table.groups().await?;
        let before = self.table.was_at(&self.name).await?.filter(|group| groups.contains(group));
        let first = self.number % self.options.groups;
        let distance = |group: &&i64| (**group - first).rem_euclid(self.options.groups);
        Ok(before.or_else(|| groups.iter().min_by_key(distance).copied()))
    }

    async fn under_lock(&self, group: i64, lease: LockHandle) -> Result<()> {
        self.next_task(group, lease.fencing_token().await?.get_i64()).await
    }

    /// Does the next task of a group, from its checkpoint on.
    async fn next_task(&self, group: i64, token: i64) -> Result<()> {
        let Some(task) = self.table.unfinished(group).await? else { return Ok(()) };
        let Some(found) = self.table.claim(task, token).await? else {
            return self.note("late", group, token).await;
        };
        self.note("taken", group, token).await?;
        let holder = Holder { worker: &self.name, token };
        for line in found.checkpoint + 1..=found.total {
            // This sleep stands for the work at the line.
            tokio::time::sleep(self.options.line).await;
            self.stall();
            let compare = self.options.care == Care::Full;
            if !self.table.import(task, line, holder, compare).await? {
                return self.note("late", group, token).await;
            }
        }
        Ok(())
    }

    /// Sometimes stops this process for longer than its lease. Only the comparison of tokens protects the task then.
    fn stall(&self) {
        let Some(every) = self.options.stall_every else { return };
        if random::below(every) == 0 {
            let _ = children::pause(std::process::id(), self.options.ttl * 3 / 2).status();
        }
    }

    async fn note(&self, event: &str, group: i64, token: i64) -> Result<()> {
        let (worker, event) = (self.name.clone(), event.to_owned());
        self.table.note(&Event { happened: clock::now(), worker, event, group, token }).await
    }
}

/// The longest time that the release of a lock at the end may take.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
