//! A client process that can be paused, as a garbage collector or a suspended machine does.
//!
//! The hosts of the network are polled in every step, and nothing keeps their timers from firing. So in worlds with
//! pauses a client has two parts. The machine is such a host, and carries bytes. The process has its own runtime, which
//! advances as far as the world in every step, or not at all. When the process continues after a pause, its clock has
//! advanced as well: the messages that arrived meanwhile are there, and all its timers are late.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use lock_core::testkit::simulation::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, advance, sleep};

use crate::wire::Wire;

/// The buffer of a machine for a connection that its process does not read.
const ROOM: usize = 64 * 1_024;

/// The work of a client during its life.
type Life = Pin<Box<dyn Future<Output = turmoil::Result>>>;

/// A connection that a process requests.
struct Call {
    host: String,
    port: u16,
    made: oneshot::Sender<io::Result<DuplexStream>>,
}

/// The channel through which a machine receives the connection requests of its process. Each start replaces the
/// channel.
#[derive(Clone, Default)]
pub(crate) struct Port(Rc<RefCell<Option<mpsc::UnboundedSender<Call>>>>);

/// The data of the current process.
#[derive(Clone)]
struct Running {
    port: Port,
    /// The time at which the world began, by the clock of the process's runtime.
    beginning: Instant,
    /// The total time for which the process was paused.
    stood: Duration,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// Returns the true time in the current process.
pub(crate) fn now() -> Option<Duration> {
    let beginning = RUNNING.with_borrow(|running| running.as_ref().map(|running| running.beginning))?;
    Some(shown() - beginning)
}

/// Returns the time of the runtime's clock.
#[allow(clippy::disallowed_methods, reason = "it is the world's own clock")]
fn shown() -> Instant {
    Instant::now()
}

/// Returns how long the current process was paused.
pub(crate) fn stood() -> Duration {
    RUNNING.with_borrow(|running| running.as_ref().map_or(Duration::ZERO, |running| running.stood))
}

/// Connects the current process. Returns `None` if no process runs.
pub(crate) fn dial(host: &str, port: u16) -> Option<impl Future<Output = io::Result<DuplexStream>> + use<>> {
    let running = RUNNING.with_borrow(Clone::clone)?;
    let (made, answer) = oneshot::channel();
    let call = Call { host: host.to_owned(), port, made };
    let sent = running.port.0.borrow().as_ref().is_some_and(|calls| calls.send(call).is_ok());
    let gone = || io::Error::from(io::ErrorKind::NetworkDown);
    Some(async move { if sent { answer.await.map_err(|_| gone())? } else { Err(gone()) } })
}

/// Runs one life of the machine of a process.
pub(crate) async fn carry(port: Port) -> turmoil::Result {
    let (calls, mut called) = mpsc::unbounded_channel();
    port.0.replace(Some(calls));
    while let Some(Call { host, port, made }) = called.recv().await {
        tokio::task::spawn_local(async move {
            let wire = match Wire::connect(host, port).await {
                Ok(wire) => wire,
                Err(error) => return drop(made.send(Err(error))),
            };
            let (near, far) = duplex(ROOM);
            if made.send(Ok(near)).is_ok() {
                let ((from_far, to_far), (from_near, to_near)) =
                    (tokio::io::split(wire), tokio::io::split(far));
                tokio::select! {
                    biased;
                    () = copy(from_far, to_near) => {}
                    () = copy(from_near, to_far) => {}
                }
            }
        });
    }
    Ok(())
}

/// Copies until one of the two ends is closed.
async fn copy(mut from: ReadHalf<impl Stream>, mut to: WriteHalf<impl Stream>) {
    let mut bytes = vec![0; 4 * 1_024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// A client with its own runtime.
pub(crate) struct Process {
    begin: Box<dyn Fn() -> Life>,
    port: Port,
    life: Option<Alive>,
    /// The time at which the process was paused.
    stopped: Option<Duration>,
    /// The number of pauses of the process.
    stops: Rc<Cell<usize>>,
    stood: Duration,
}

struct Alive {
    runtime: Runtime,
    tasks: LocalSet,
    whole: JoinHandle<turmoil::Result>,
    beginning: Instant,
}

impl Process {
    pub(crate) fn new(port: Port, stops: Rc<Cell<usize>>, begin: impl Fn() -> Life + 'static) -> Self {
        Self { begin: Box::new(begin), port, life: None, stopped: None, stops, stood: Duration::ZERO }
    }

    /// Begins a life at `at`.
    pub(crate) fn start(&mut self, at: Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let tasks = LocalSet::new();
        // This sleep is needed because timers count whole milliseconds.
        runtime.block_on(async { sleep(Duration::from_millis(1)).await });
        let entered = runtime.enter();
        let beginning = shown() - at;
        drop(entered);
        let whole = tasks.spawn_local((self.begin)());
        self.life = Some(Alive { runtime, tasks, whole, beginning });
        self.stopped = None;
    }

    /// Kills the machine, and everything that runs on it.
    pub(crate) fn crash(&mut self) {
        self.life = None;
    }

    /// Pauses the process at `at`.
    pub(crate) fn stop(&mut self, at: Duration) {
        self.stopped = Some(at);
        self.stops.set(self.stops.get() + 1);
    }

    /// Continues the process at `at`.
    pub(crate) fn go_on(&mut self, at: Duration) {
        let Some(stopped) = self.stopped.take() else { return };
        self.stood += at - stopped;
        // The clock advances before anything is polled, so that late timers are seen to be late.
        self.run(|_| advance(at - stopped));
    }

    /// Advances the process by `time`, unless it is paused.
    pub(crate) fn tick(&mut self, time: Duration) {
        if self.stopped.is_none() {
            self.run(|tasks| tasks.run_until(sleep(time)));
        }
        let ended = self.life.as_ref().is_some_and(|life| life.whole.is_finished());
        if let Some(life) = self.life.take_if(|_| ended) {
            life.runtime.block_on(life.whole).expect("no panic").expect("no failure");
        }
    }

    fn run<'a, F: Future<Output = ()>>(&'a self, what: impl FnOnce(&'a LocalSet) -> F) {
        let Some(life) = &self.life else { return };
        let running = Running { port: self.port.clone(), beginning: life.beginning, stood: self.stood };
        RUNNING.set(Some(running));
        life.runtime.block_on(async { what(&life.tasks).await });
        RUNNING.set(None);
    }
}
