//! One of several schedulers. It checks whether the job is due, and runs the job if no other scheduler does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{LockHandle, LockManager, strategy};

use crate::common::clock::{Micros, micros};
use crate::common::database::Result;
use crate::common::random;
use crate::table::{Run, Table};

/// The key of the lock, and the name of the job in the table.
pub(crate) const JOB: &str = "job:report";

/// The job, and its ticks.
#[derive(Clone)]
pub(crate) struct Plan {
    /// The time between two ticks.
    pub(crate) every: Duration,
    /// How long the job usually takes.
    pub(crate) estimate: Duration,
    /// The duration of the job at each tick.
    pub(crate) takes: Arc<dyn Fn(i64) -> Duration + Send + Sync>,
    /// The time between two writes of the job.
    pub(crate) step: Duration,
    /// The longest pause between two checks of the table. A failover takes longer by this pause.
    pub(crate) look: Duration,
    /// The shortest time for which the key stays locked, so that a scheduler whose clock is late does not run the job
    /// again.
    pub(crate) min_hold: Duration,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("every", &self.every)
            .field("estimate", &self.estimate)
            .finish_non_exhaustive()
    }
}

impl Plan {
    /// Returns the number of the last tick that is due.
    pub(crate) fn due(&self, now: Micros) -> i64 {
        now.div_euclid(micros(self.every).max(1))
    }

    /// Returns the ttl of the lock, which is 120 % of the estimate. After a crash, another scheduler may take over when
    /// the ttl is over. The ttl does not limit the job: the lock is renewed after each third of it while the job runs.
    pub(crate) fn ttl(&self) -> Duration {
        self.estimate * 6 / 5
    }
}

pub(crate) struct Scheduler {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) locks: LockManager,
    pub(crate) table: Table,
    pub(crate) plan: Plan,
    /// Returns the time, by the clock of this machine.
    pub(crate) clock: Arc<dyn Fn() -> Micros + Send + Sync>,
}

impl Scheduler {
    /// Checks the table and runs the job until `stop` is ready. A run that is under way at that moment is finished
    /// first.
    pub(crate) async fn serve(&self, stop: impl Future<Output = ()>) -> Result<()> {
        tokio::pin!(stop);
        loop {
            // The pause is random, so that the schedulers do not all check at the same moment.
            let pause = random::between(self.plan.look / 2, self.plan.look);
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = tokio::time::sleep(pause) => self.look().await?,
            }
        }
    }

    /// Runs the job if it is due and not done, and no other scheduler is running it.
    async fn look(&self) -> Result<()> {
        let tick = self.plan.due((self.clock)());
        if self.table.done().await? >= tick {
            return Ok(());
        }
        let request = self
            .locks
            .lock(self.key.as_str())
            .ttl(self.plan.ttl())
            .strategy(strategy::skip())
            .min_hold(self.plan.min_hold)
            .fencing(true)
            .label(self.name.clone());
        match request.run_with(|lease| self.run(tick, lease)).await {
            Ok(result) => result,
            Err(error) if error.is_skipped() => Ok(()),
            Err(error) if error.is_lost() => self.table.lost(&self.name).await,
            // The store does not answer, or has no majority. The events report this failure, and the next check tries
            // again.
            Err(error) if error.is_temporary() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs the job for a tick. The future is dropped when the lock is lost.
    async fn run(&self, tick: i64, lease: LockHandle) -> Result<()> {
        let (fence, now) = (lease.fencing_token().await?.get_i64(), (self.clock)());
        let (worker, outcome) = (self.name.clone(), "running".to_owned());
        let run = Run { fence, tick, worker, started: now, seen: now, outcome };
        // Another scheduler may have finished this tick since the check of the table.
        if !self.table.begin(&run).await? {
            return Ok(());
        }
        let mut left = (self.plan.takes)(tick);
        while !left.is_zero() {
            let step = left.min(self.plan.step);
            tokio::time::sleep(step).await;
            left -= step;
            let now = (self.clock)();
            let last = left.is_zero();
            let may =
                if last { self.table.finish(&run, now).await? } else { self.table.step(&run, now).await? };
            if !may {
                // The process was stopped between two instructions and is late, or the lock has failed.
                let outcome = if lease.is_held() { "REFUSED" } else { "late" };
                return self.table.refused(&run, now, outcome).await;
            }
        }
        Ok(())
    }
}
