//! Where a renewer runs: on a thread of its own, or on the caller's runtime.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::cleanup::{self, PendingRelease};
use super::renewer::Renewer;
use crate::backend::Placement;
use crate::clock::Clock;
use crate::error::{LockError, LockErrorKind, Result};
use crate::local_queue::LocalQueue;
use crate::simulation;
use crate::store::Store;

/// How long the thread goes on after its manager is gone, to have the last releases answered.
const LAST_RELEASES: Duration = Duration::from_secs(2);

/// The renewers of one manager.
#[derive(Debug)]
pub(crate) enum Renewers {
    /// One, on a thread of its own, which is started with the manager.
    OwnThread(Thread),
    /// One for each runtime that takes locks, on that runtime.
    OnRuntimes { parts: Parts, all: Mutex<Vec<OnRuntime>> },
}

/// What every renewer is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    store: Store,
    local_queue: Arc<LocalQueue>,
    clock: Clock,
}

impl Parts {
    fn renewer(&self) -> Arc<Renewer> {
        Renewer::new(self.store.clone(), Arc::clone(&self.local_queue), self.clock)
    }
}

#[derive(Debug)]
pub(crate) struct Thread {
    renewer: Arc<Renewer>,
    runtime: Handle,
}

/// A renewer of one runtime. The loop owns it: when the runtime is gone, so is the renewer.
#[derive(Debug)]
pub(crate) struct OnRuntime {
    runtime: Handle,
    renewer: Weak<Renewer>,
}

impl Renewers {
    /// # Errors
    /// The system has no further thread.
    pub(crate) fn new(store: Store, local_queue: Arc<LocalQueue>) -> Result<Self> {
        let placement = store.capability().placement;
        let parts = Parts { store, local_queue, clock: placement.clock() };
        // A simulated world is all on one thread, and its clock stands still elsewhere.
        let placement = if simulation::is_on() { Placement::Embedded } else { placement };
        Ok(match placement {
            Placement::Remote => Self::OwnThread(start(&parts)?),
            Placement::Embedded => Self::OnRuntimes { parts, all: Mutex::default() },
        })
    }

    /// The runtime on which a store drives its session: that of the thread, or the one within which the manager is made.
    pub(crate) fn background(&self) -> Option<Handle> {
        match self {
            Self::OwnThread(thread) => Some(thread.runtime.clone()),
            Self::OnRuntimes { .. } => Handle::try_current().ok(),
        }
    }

    /// The renewer that is to renew the grants of the calling task.
    pub(crate) fn here(&self) -> Result<Arc<Renewer>> {
        match self {
            Self::OwnThread(thread) => {
                current_runtime()?;
                Ok(Arc::clone(&thread.renewer))
            }
            Self::OnRuntimes { parts, all } => {
                let runtime = current_runtime()?;
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.retain(|one| one.renewer.strong_count() > 0);
                let here = all.iter().find(|one| one.runtime.id() == runtime.id());
                if let Some(renewer) = here.and_then(|one| one.renewer.upgrade()) {
                    return Ok(renewer);
                }
                let renewer = parts.renewer();
                all.push(OnRuntime { runtime: runtime.clone(), renewer: Arc::downgrade(&renewer) });
                runtime.spawn(Arc::clone(&renewer).run());
                Ok(renewer)
            }
        }
    }

    /// Gives back, in the background, what nobody wants any more. Never blocks, never panics, needs no runtime of the
    /// caller.
    pub(crate) fn release(&self, pending: PendingRelease) {
        match self {
            Self::OwnThread(thread) => cleanup::spawn(&thread.renewer, &thread.runtime, pending),
            Self::OnRuntimes { parts, all } => {
                let all = all.lock().unwrap_or_else(PoisonError::into_inner);
                let alive = all.iter().find_map(|one| Some((one.renewer.upgrade()?, &one.runtime)));
                match alive {
                    Some((renewer, runtime)) => cleanup::spawn(&renewer, runtime, pending),
                    None => {
                        tracing::error!(
                            "no runtime for a release: the key stays until the store's lease is over"
                        );
                        pending.freed(&parts.local_queue);
                    }
                }
            }
        }
    }

    /// The renewers that exist.
    pub(crate) fn all(&self) -> Vec<Arc<Renewer>> {
        match self {
            Self::OwnThread(thread) => vec![Arc::clone(&thread.renewer)],
            Self::OnRuntimes { all, .. } => {
                let all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.iter().filter_map(|one| one.renewer.upgrade()).collect()
            }
        }
    }
}

impl Drop for Renewers {
    fn drop(&mut self) {
        for renewer in self.all() {
            renewer.close();
        }
    }
}

fn current_runtime() -> Result<Handle> {
    Handle::try_current().map_err(|error| {
        let advice = "locks are taken inside a tokio runtime: call this from an async fn that tokio runs";
        LockError::new(LockErrorKind::InvalidRequest, advice).with_source(error)
    })
}

fn start(parts: &Parts) -> Result<Thread> {
    let failed = |what: &'static str| {
        move |error: std::io::Error| {
            LockError::new(LockErrorKind::Unavailable, what).nothing_taken().with_source(error)
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("the runtime for renewals cannot be built"))?;
    let renewer = parts.renewer();
    let (handle, running) = (runtime.handle().clone(), Arc::clone(&renewer));
    std::thread::Builder::new()
        .name("lock-renewer".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                Arc::clone(&running).run().await;
                let _ = tokio::time::timeout(LAST_RELEASES, cleanup::all_answered(&running)).await;
            });
        })
        .map_err(failed("the thread for renewals cannot be started"))?;
    Ok(Thread { renewer, runtime: handle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::backend::memory::Memory;

    #[test]
    fn each_runtime_has_one_keeper_and_a_dead_one_none() {
        let store = Memory::new();
        let local_queue = Arc::new(LocalQueue::new(&store.capability()));
        let renewers = Renewers::new(Store::unobserved(store), local_queue).expect("no thread is needed");
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
        here(&two);
        let Renewers::OnRuntimes { all, .. } = &renewers else { panic!("memory has no thread") };
        assert_eq!(all.lock().expect("no panic").len(), 1, "the dead one is forgotten");
        assert!(renewers.here().is_err(), "outside a runtime");
    }
}
