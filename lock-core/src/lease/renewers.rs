//! The renewers of one manager: one for each runtime of the background.

use std::sync::{Arc, MutexGuard, Weak};

use tokio::runtime::Handle;

use super::lease::Lease;
use super::renewer::Renewer;
use super::schedule::Schedule;
use crate::background::{Background, current_runtime};
use crate::clock::Clock;
use crate::error::Result;
use crate::local_queue::LocalQueue;
use crate::store::Store;
use crate::sync::Mutex;

/// The renewers of one manager.
#[derive(Debug)]
pub(crate) struct Renewers {
    store: Store,
    local_queue: Arc<LocalQueue>,
    clock: Clock,
    background: Arc<Background>,
    /// The renewer of the library's own thread, where there is one.
    own: Option<Arc<Schedule<Lease>>>,
    /// Those of the runtimes that take locks.
    others: Mutex<Vec<OnRuntime>>,
}

/// The schedule of one runtime. The loop owns it: when the runtime is gone, so is the schedule.
#[derive(Debug)]
struct OnRuntime {
    runtime: Handle,
    schedule: Weak<Schedule<Lease>>,
}

impl Renewers {
    pub(crate) fn new(store: Store, local_queue: Arc<LocalQueue>, background: Arc<Background>) -> Self {
        let clock = store.capability().placement.clock();
        let mut renewers =
            Self { store, local_queue, clock, background, own: None, others: Mutex::default() };
        if let Background::OwnThread(thread) = &*renewers.background {
            renewers.own = Some(renewers.start(thread.runtime()));
        }
        renewers
    }

    /// Returns the schedule for the leases of the calling task.
    pub(crate) fn here(&self) -> Result<Arc<Schedule<Lease>>> {
        // Also where the library has a thread of its own: the caller waits on timers of its runtime, which panic
        // without one.
        let runtime = current_runtime()?;
        if let Some(schedule) = &self.own {
            return Ok(Arc::clone(schedule));
        }
        // Locked until the new schedule is listed, or two first locks of one runtime would start two loops.
        let mut others = self.others();
        let here = others.iter().find(|one| one.runtime.id() == runtime.id());
        if let Some(schedule) = here.and_then(|one| one.schedule.upgrade()) {
            return Ok(schedule);
        }
        others.retain(|one| one.schedule.strong_count() > 0);
        let schedule = self.start(&runtime);
        others.push(OnRuntime { runtime, schedule: Arc::downgrade(&schedule) });
        Ok(schedule)
    }

    /// Starts a renewer on `runtime`.
    fn start(&self, runtime: &Handle) -> Arc<Schedule<Lease>> {
        let renewer = Renewer::new(self.store.clone(), Arc::clone(&self.local_queue), self.clock);
        let schedule = Arc::clone(renewer.schedule());
        // The task keeps it, so the runtime counts as alive until it drops its tasks. A release in the background picks
        // a runtime by that.
        let presence = self.background.join(runtime);
        let lingering = EndsLingering(Arc::clone(&self.local_queue));
        runtime.spawn(async move {
            let (_presence, _lingering) = (presence, lingering);
            renewer.run().await;
        });
        schedule
    }

    /// Returns every live lease.
    pub(crate) fn leases(&self) -> Vec<Arc<Lease>> {
        self.all().iter().flat_map(|schedule| schedule.items()).collect()
    }

    fn all(&self) -> Vec<Arc<Schedule<Lease>>> {
        let others: Vec<_> = self.others().iter().filter_map(|one| one.schedule.upgrade()).collect();
        self.own.iter().cloned().chain(others).collect()
    }

    fn others(&self) -> MutexGuard<'_, Vec<OnRuntime>> {
        self.others.lock()
    }
}

/// Gives the grants back that linger when a renewer ends with its runtime: nobody else may be there to end them in time.
#[derive(Debug)]
struct EndsLingering(Arc<LocalQueue>);

impl Drop for EndsLingering {
    fn drop(&mut self) {
        self.0.end_all_lingering();
    }
}

impl Drop for Renewers {
    fn drop(&mut self) {
        // Each loop keeps itself and the store alive, and ends only when it is told to or with its runtime.
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
            runtime.block_on(async { renewers.here().expect("a runtime") })
        };
        let (first, second) = (here(&one), here(&two));
        assert!(Arc::ptr_eq(&first, &here(&one)) && Arc::ptr_eq(&second, &here(&two)));
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!(renewers.all().len(), 2);
        drop((first, one));
        assert_eq!(renewers.all().len(), 1);
        let three = runtime();
        here(&three);
        assert_eq!(renewers.others().len(), 2, "the dead one is forgotten");
        assert!(renewers.here().is_err(), "outside a runtime");
    }
}
