//! Where the library's own work runs: renewals, releases in the background, and the session of a store.
//!
//! A call that locks or connects needs the runtime of its caller, and fails with an error outside of one
//! (`current_runtime`). Every other call is polled inside the runtime of the library's thread if the caller has none. No
//! body runs there, because it would block renewals.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::backend::{BoxFuture, Placement};
use crate::error::{LockError, LockErrorKind, Result};
use crate::simulation;
use crate::sync::Mutex;

/// How long the thread outlives its manager, so that the last releases are answered.
const LAST_RELEASES: Duration = Duration::from_secs(2);

/// The runtimes of the background.
///
/// Over a remote store it is a thread with a current-thread runtime, so that a body that blocks every worker of the
/// caller's runtime keeps its lock. Over the memory store it is the runtimes that take locks, so that a paused clock
/// drives it. There the thread is started for the first caller outside of tokio: those runtimes may not be driven.
#[derive(Debug)]
pub(crate) enum Background {
    OwnThread(Thread),
    OnRuntimes(Mutex<Vec<OnRuntime>>, Mutex<Option<Thread>>),
}

pub(crate) struct Thread {
    runtime: Handle,
    /// Ends the thread, once the future that is sent has completed.
    stop: Mutex<Option<oneshot::Sender<BoxFuture<'static, ()>>>>,
}

#[derive(Debug)]
pub(crate) struct OnRuntime {
    runtime: Handle,
    presence: Weak<Presence>,
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("runtime", &self.runtime).finish_non_exhaustive()
    }
}

/// Proof that a runtime is alive, kept by a task that runs on it.
#[derive(Debug)]
pub(crate) struct Presence(());

impl Background {
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn new(placement: Placement) -> Result<Self> {
        // A simulated world is on one thread, and its clock stands still on every other.
        if placement == Placement::Remote && !simulation::is_on() {
            return start().map(Self::OwnThread);
        }
        Ok(Self::OnRuntimes(Mutex::default(), Mutex::default()))
    }

    /// Returns the runtime on which a store drives its session: the runtime of the thread, or the one in which the
    /// manager is made.
    pub(crate) fn of_session(&self) -> Option<Handle> {
        match self {
            Self::OwnThread(thread) => Some(thread.runtime.clone()),
            Self::OnRuntimes(..) => Handle::try_current().ok(),
        }
    }

    /// Returns a runtime on which a task can be spawned from anywhere; `None` if all of them have ended.
    pub(crate) fn runtime(&self) -> Option<Handle> {
        match self {
            Self::OwnThread(thread) => Some(thread.runtime.clone()),
            Self::OnRuntimes(all, _) => {
                let all = all.lock();
                // A runtime that has ended drops a task that is spawned on it, and the release with it.
                all.iter().find(|one| one.presence.strong_count() > 0).map(|one| one.runtime.clone())
            }
        }
    }

    /// Completes with `call`. It is polled inside tokio: in the runtime of the caller, or else in that of the thread.
    ///
    /// This is for calls that do not run code of the application, which could block the thread.
    ///
    /// # Errors
    /// The caller is outside of tokio, and the system has no further thread.
    pub(crate) async fn inside<F: Future>(&self, call: F) -> Result<F::Output> {
        let mut call = pin!(call);
        poll_fn(|cx| {
            // This is checked at each poll, because a future may move from one executor to another.
            if Handle::try_current().is_ok() {
                return call.as_mut().poll(cx).map(Ok);
            }
            match self.of_thread() {
                Ok(runtime) => {
                    let _inside = runtime.enter();
                    call.as_mut().poll(cx).map(Ok)
                }
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await
    }

    /// Returns the runtime of the thread, and starts the thread if there is none.
    fn of_thread(&self) -> Result<Handle> {
        let spare = match self {
            Self::OwnThread(thread) => return Ok(thread.runtime.clone()),
            Self::OnRuntimes(_, spare) => spare,
        };
        let mut spare = spare.lock();
        match &*spare {
            Some(thread) => Ok(thread.runtime.clone()),
            None => Ok(spare.insert(start()?).runtime.clone()),
        }
    }

    /// Adds a runtime, for as long as a task on it keeps the returned value.
    pub(crate) fn join(&self, runtime: &Handle) -> Arc<Presence> {
        let presence = Arc::new(Presence(()));
        if let Self::OnRuntimes(all, _) = self {
            let here = OnRuntime { runtime: runtime.clone(), presence: Arc::downgrade(&presence) };
            // This may drop the last handle of a runtime that has ended, with values of the application.
            drop(all.with(|all| {
                let alive = |one: &OnRuntime| one.presence.strong_count() > 0;
                let (mut alive, gone): (Vec<_>, Vec<_>) = all.drain(..).partition(alive);
                alive.push(here);
                *all = alive;
                gone
            }));
        }
        presence
    }

    /// Ends the thread when `last` has completed, or after [`LAST_RELEASES`].
    pub(crate) fn stop(&self, last: impl Future<Output = ()> + Send + 'static) {
        if let Self::OwnThread(thread) = self
            && let Some(stop) = thread.stop.lock().take()
        {
            let _ = stop.send(Box::pin(last));
        }
    }
}

impl Thread {
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

fn start() -> Result<Thread> {
    let failed = |what: &'static str| {
        move |error: std::io::Error| {
            LockError::new(LockErrorKind::Unavailable, what).nothing_taken().with_source(error)
        }
    };
    // The runtime is built here, so that the caller gets the error. The thread owns and drops it: tokio panics if a
    // runtime is dropped inside another.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("the runtime for renewals cannot be built"))?;
    let (stop, stopped) = oneshot::channel();
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("lock-background".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                // Renewals and releases are tasks of this runtime and end with it. An error means that the sender was
                // dropped: the thread ends.
                if let Ok(last) = stopped.await {
                    let _ = tokio::time::timeout(LAST_RELEASES, last).await;
                }
            });
        })
        .map_err(failed("the thread for renewals cannot be started"))?;
    Ok(Thread { runtime: handle, stop: Mutex::new(Some(stop)) })
}
