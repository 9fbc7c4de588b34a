//! Runs the work that the library does in the background: renewals, releases, and the session of a store.
//!
//! A call that locks or connects needs the runtime of its caller, and fails outside of a runtime (`current_runtime`).
//! Every other call works outside of a runtime too: it is then polled inside the runtime of the library's thread. No
//! body runs on that thread, because a body could block renewals.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::backend::{BoxFuture, Placement};
use crate::error::{LockError, LockErrorKind, Result};
use crate::simulation;
use crate::sync::Mutex;

/// The maximum time that the thread outlives its manager, so that the last releases are still answered.
const LAST_RELEASES: Duration = Duration::from_secs(2);

/// The runtimes on which the work in the background runs.
///
/// With a remote store, the work runs on a thread with its own current-thread runtime. So renewals continue even if a
/// body blocks every worker of the caller's runtime. With the memory store, the work runs on the runtimes that acquire
/// locks, so that a paused clock also controls the work. With the memory store, a thread is started only when a caller
/// outside of tokio first needs it, because nothing may drive the other runtimes at that time.
#[derive(Debug)]
pub(crate) enum Background {
    OwnThread(Thread),
    OnRuntimes(Mutex<Vec<OnRuntime>>, Mutex<Option<Thread>>),
}

pub(crate) struct Thread {
    runtime: Handle,
    /// The channel for the last future of the thread. When that future has completed, the thread ends.
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

/// Shows that a runtime is alive. A task on the runtime owns this value.
#[derive(Debug)]
pub(crate) struct Presence(());

impl Background {
    /// # Errors
    /// Returns an error if the system cannot start another thread.
    pub(crate) fn new(placement: Placement) -> Result<Self> {
        // A simulated world runs on one thread, and its clock does not advance on any other thread.
        if placement == Placement::Remote && !simulation::is_on() {
            return start().map(Self::OwnThread);
        }
        Ok(Self::OnRuntimes(Mutex::default(), Mutex::default()))
    }

    /// Returns the runtime on which a store runs its session. This is the runtime of the thread, or otherwise the
    /// current runtime, in which the manager is created.
    pub(crate) fn of_session(&self) -> Option<Handle> {
        match self {
            Self::OwnThread(thread) => Some(thread.runtime.clone()),
            Self::OnRuntimes(..) => Handle::try_current().ok(),
        }
    }

    /// Returns a runtime on which a task can be spawned, or `None` if all runtimes have ended.
    pub(crate) fn runtime(&self) -> Option<Handle> {
        match self {
            Self::OwnThread(thread) => Some(thread.runtime.clone()),
            Self::OnRuntimes(all, _) => {
                let all = all.lock();
                // Skip ended runtimes. They would drop the spawned task, and the release in it.
                all.iter().find(|one| one.presence.strong_count() > 0).map(|one| one.runtime.clone())
            }
        }
    }

    /// Runs `call` to its end inside a tokio runtime: the runtime of the caller, or otherwise the runtime of the
    /// thread.
    ///
    /// Use this only for calls that run no code of the application. Such code could block the runtime of the thread.
    ///
    /// # Errors
    /// Returns an error if the caller is outside of tokio, and the system cannot start another thread.
    pub(crate) fn inside<F: Future>(&self, call: F) -> Inside<'_, F> {
        Inside { background: self, call }
    }

    /// Returns the runtime of the thread, and starts the thread if it does not exist.
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

    /// Adds a runtime, which is used until the returned value is dropped. A task on the runtime must own that value.
    pub(crate) fn join(&self, runtime: &Handle) -> Arc<Presence> {
        let presence = Arc::new(Presence(()));
        if let Self::OnRuntimes(all, _) = self {
            let here = OnRuntime { runtime: runtime.clone(), presence: Arc::downgrade(&presence) };
            // The ended runtimes are dropped outside the lock, because this may drop the last handle of a runtime, and
            // with it values of the application.
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

    /// Ends the thread when `last` has completed, but after at most [`LAST_RELEASES`].
    pub(crate) fn stop(&self, last: impl Future<Output = ()> + Send + 'static) {
        if let Self::OwnThread(thread) = self
            && let Some(stop) = thread.stop.lock().take()
        {
            let _ = stop.send(Box::pin(last));
        }
    }
}

pin_project! {
    /// A call that is polled inside a tokio runtime: see [`Background::inside`].
    ///
    /// This is no async function, because an async function that takes a future by value reserves memory for the
    /// future twice.
    pub(crate) struct Inside<'a, F> {
        background: &'a Background,
        #[pin]
        call: F,
    }
}

impl<T, F: Future<Output = Result<T>>> Future for Inside<'_, F> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // The runtime is checked at every poll, because a future may move from one executor to another.
        if Handle::try_current().is_ok() {
            return this.call.poll(cx);
        }
        let runtime = this.background.of_thread()?;
        let _inside = runtime.enter();
        this.call.poll(cx)
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
    // The runtime is built here, so that the caller receives the error. The thread owns the runtime, because tokio
    // panics if a runtime is dropped inside another runtime.
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
                // Renewals and releases are tasks of this runtime, and end with it. If the sender was dropped,
                // `stopped` returns an error, and the thread ends at once.
                if let Ok(last) = stopped.await {
                    let _ = tokio::time::timeout(LAST_RELEASES, last).await;
                }
            });
        })
        .map_err(failed("the thread for renewals cannot be started"))?;
    Ok(Thread { runtime: handle, stop: Mutex::new(Some(stop)) })
}
