//! Manages the renewers of one manager: one on the library's own thread, or else one for each runtime that acquires
//! locks.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::runtime::{Handle, Id};

use super::lease::Lease;
use super::renewer::Renewer;
use super::schedule::Schedule;
use crate::background::Background;
use crate::clock::Clock;
use crate::error::Result;
use crate::local_queue::LocalQueue;
use crate::runtime::current_runtime;
use crate::store::Store;
use crate::sync::{Mutex, survives};

/// The renewers of one manager.
#[derive(Debug)]
pub(crate) struct Renewers {
    store: Store,
    local_queue: Arc<LocalQueue>,
    clock: Clock,
    background: Arc<Background>,
    /// The schedules of all runtimes that watch leases, and of ended runtimes with live leases. Usually this is only
    /// one.
    schedules: Mutex<Vec<Arc<Schedule>>>,
}

impl Renewers {
    pub(crate) fn new(store: Store, local_queue: Arc<LocalQueue>, background: Arc<Background>) -> Self {
        let clock = store.backend.capability_dyn().placement.clock();
        Self { store, local_queue, clock, background, schedules: Mutex::default() }
    }

    /// Returns the schedule for the leases of the calling task.
    pub(crate) fn here(&self) -> Result<Arc<Schedule>> {
        // A runtime is required even if the library has its own thread, because the caller uses tokio's timers, which
        // panic outside of a runtime.
        let caller = current_runtime()?;
        let runtime = match &*self.background {
            Background::OwnThread(thread) => thread.runtime(),
            Background::OnRuntimes(..) => &caller,
        };
        if let Some(schedule) = self.running(runtime.id()) {
            return Ok(schedule);
        }
        self.forget_ended();
        let renewer =
            Renewer::new(self.store.clone(), Arc::clone(&self.local_queue), self.clock, runtime.id());
        let schedule = Arc::clone(renewer.schedule());
        // The list is searched again under its mutex. Otherwise two tasks that acquire the first locks of one runtime
        // at the same time would start two loops.
        let first = self.schedules.with(|all| {
            let first = all.iter().find(|schedule| is_of(schedule, runtime.id())).cloned();
            if first.is_none() {
                all.push(Arc::clone(&schedule));
            }
            first
        });
        if let Some(schedule) = first {
            return Ok(schedule);
        }
        // The renewer starts outside of the mutex. A runtime that is ending drops the renewer at once, and this drop
        // runs much other code, because it releases lingering grants.
        self.run(renewer, runtime);
        Ok(schedule)
    }

    /// Removes the schedules of runtimes that have ended and have no live leases.
    fn forget_ended(&self) {
        // The check happens outside of the mutex, because it may drop the last reference to a lease.
        let all = self.all();
        let over: Vec<_> = all.into_iter().filter(|schedule| schedule.is_over()).collect();
        let forgotten = self.schedules.with(|all| {
            // The list and `over` have one reference each. With a third reference, the schedule is in use and may get
            // further leases.
            let is_over = |schedule: &Arc<Schedule>| {
                over.iter().any(|other| Arc::ptr_eq(other, schedule)) && Arc::strong_count(schedule) <= 2
            };
            let (over, kept): (Vec<_>, Vec<_>) = all.drain(..).partition(is_over);
            *all = kept;
            over
        });
        drop(forgotten);
    }

    /// Returns the schedule of a loop that runs on `runtime`.
    fn running(&self, runtime: Id) -> Option<Arc<Schedule>> {
        self.schedules.with(|all| all.iter().find(|schedule| is_of(schedule, runtime)).cloned())
    }

    /// Returns the schedule that watches `lease`. If the runtime of the lease has ended, returns the schedule of the
    /// calling task. The lease then moves to that schedule.
    pub(crate) fn schedule_of(&self, lease: &Lease) -> Result<Arc<Schedule>> {
        self.running(lease.runtime).map_or_else(|| self.here(), Ok)
    }

    fn run(&self, renewer: Arc<Renewer>, runtime: &Handle) {
        // The task keeps this value, so the runtime counts as alive until it drops its tasks. Background releases
        // choose a runtime that counts as alive.
        let presence = self.background.join(runtime);
        let ends =
            Ends { schedule: Arc::clone(renewer.schedule()), local_queue: Arc::clone(&self.local_queue) };
        runtime.spawn(async move {
            let (_presence, _ends) = (presence, ends);
            renewer.run().await;
        });
    }

    /// Returns every lease that has not been released, including the leases of ended runtimes.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        let mut leases: Vec<_> = self.all().iter().flat_map(|schedule| schedule.leases()).collect();
        // A lease that has moved from the schedule of an ended runtime may be in both schedules.
        let mut seen = HashSet::new();
        leases.retain(|lease| seen.insert(Arc::as_ptr(lease)));
        leases
    }

    fn all(&self) -> Vec<Arc<Schedule>> {
        self.schedules.with(|all| all.clone())
    }
}

/// Returns whether `schedule` belongs to `runtime` and its loop is running.
fn is_of(schedule: &Schedule, runtime: Id) -> bool {
    schedule.runtime() == runtime && !schedule.is_closing()
}

/// Ends the schedule and the lingering grants of a renewer when the runtime of the renewer ends.
#[derive(Debug)]
struct Ends {
    schedule: Arc<Schedule>,
    local_queue: Arc<LocalQueue>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        // Dropping the last reference to a lease may run the application's log subscriber, which may panic.
        survives(|| self.schedule.end());
        // The renewer ends lingering grants. Without a renewer, these grants might not end in time.
        survives(|| self.local_queue.end_all_lingering());
    }
}

impl Drop for Renewers {
    fn drop(&mut self) {
        // Each loop keeps itself and the store alive, so it must be stopped explicitly. Otherwise it ends only with its
        // runtime.
        self.all().iter().for_each(|schedule| schedule.close());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::memory::Memory;
    use crate::backend::{Backend, Placement};

    #[test]
    fn each_runtime_has_one_schedule_and_a_dead_one_none() {
        let store = Memory::new();
        let local_queue = Arc::new(LocalQueue::new(&store.capability()));
        let background = Arc::new(Background::new(Placement::Embedded).expect("no thread is needed"));
        let renewers = Renewers::new(Store::unobserved(store), local_queue, background);
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (one, two) = (runtime(), runtime());
        let here = |runtime: &tokio::runtime::Runtime| {
            runtime.block_on(async { std::ptr::from_ref(&*renewers.here().expect("a runtime")) })
        };
        let (first, second) = (here(&one), here(&two));
        assert!(first == here(&one) && second == here(&two));
        assert_ne!(first, second);
        let alive = || renewers.all().iter().filter(|schedule| !schedule.is_closing()).count();
        assert_eq!(alive(), 2);
        drop(two);
        assert_eq!(alive(), 1);
        let three = runtime();
        here(&three);
        assert_eq!(renewers.schedules.lock().len(), 2, "the dead one is forgotten");
        drop(one);
        assert_ne!(first, here(&three), "the first one is dead");
        assert_eq!(alive(), 1);
        assert!(renewers.here().is_err(), "outside a runtime");
    }
}
