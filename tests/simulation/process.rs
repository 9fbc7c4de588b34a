//! A client process that can stand still: a pause of its garbage collector, a machine that is suspended.
//!
//! The network's own hosts are polled in every step, and nothing keeps their timers from firing. So in worlds with pauses
//! a client is two things: a machine, which is such a host and carries bytes, and a process beside it with a runtime of
//! its own, which goes as far as the world in every step, or not at all. When it goes on, its clock has gone on as well:
//! what was sent to it meanwhile is there, and all its timers are late.

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

/// What a machine keeps of a connection that its process does not read.
const ROOM: usize = 64 * 1_024;

/// What a client does in its life.
type Life = Pin<Box<dyn Future<Output = turmoil::Result>>>;

/// A connection that a process wants.
struct Call {
    host: String,
    port: u16,
    made: oneshot::Sender<io::Result<DuplexStream>>,
}

/// Where a machine hears of the connections that its process wants: anew after every start.
#[derive(Clone, Default)]
pub(crate) struct Port(Rc<RefCell<Option<mpsc::UnboundedSender<Call>>>>);

/// What the process that runs now needs to know.
#[derive(Clone)]
struct Running {
    port: Port,
    /// When the world began, by the clock of its runtime.
    beginning: Instant,
    /// For how long it stood still.
    stood: Duration,
}

thread_local! {
    static RUNNING: RefCell<Option<Running>> = const { RefCell::new(None) };
}

/// The true time where a process runs.
pub(crate) fn now() -> Option<Duration> {
    let beginning = RUNNING.with_borrow(|running| running.as_ref().map(|running| running.beginning))?;
    Some(shown() - beginning)
}

/// What the clock of the runtime shows.
#[allow(clippy::disallowed_methods, reason = "it is the world's own clock")]
fn shown() -> Instant {
    Instant::now()
}

/// For how long the process that runs has stood still.
pub(crate) fn stood() -> Duration {
    RUNNING.with_borrow(|running| running.as_ref().map_or(Duration::ZERO, |running| running.stood))
}

/// Connects the process that runs; `None` where none does.
pub(crate) fn dial(host: &str, port: u16) -> Option<impl Future<Output = io::Result<DuplexStream>> + use<>> {
    let running = RUNNING.with_borrow(Clone::clone)?;
    let (made, answer) = oneshot::channel();
    let call = Call { host: host.to_owned(), port, made };
    let sent = running.port.0.borrow().as_ref().is_some_and(|calls| calls.send(call).is_ok());
    let gone = || io::Error::from(io::ErrorKind::NetworkDown);
    Some(async move { if sent { answer.await.map_err(|_| gone())? } else { Err(gone()) } })
}

/// One life of the machine of a process.
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

/// Until one of the two ends is closed.
async fn copy(mut from: ReadHalf<impl Stream>, mut to: WriteHalf<impl Stream>) {
    let mut bytes = vec![0; 4 * 1_024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// A client with a runtime of its own.
pub(crate) struct Process {
    begin: Box<dyn Fn() -> Life>,
    port: Port,
    life: Option<Alive>,
    /// When it was stopped.
    stopped: Option<Duration>,
    /// How often it was stopped.
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
        // Timers go by whole milliseconds.
        runtime.block_on(async { sleep(Duration::from_millis(1)).await });
        let entered = runtime.enter();
        let beginning = shown() - at;
        drop(entered);
        let whole = tasks.spawn_local((self.begin)());
        self.life = Some(Alive { runtime, tasks, whole, beginning });
        self.stopped = None;
    }

    /// The machine dies, and everything on it.
    pub(crate) fn crash(&mut self) {
        self.life = None;
    }

    /// From `at` on it stands still.
    pub(crate) fn stop(&mut self, at: Duration) {
        self.stopped = Some(at);
        self.stops.set(self.stops.get() + 1);
    }

    /// It goes on at `at`.
    pub(crate) fn go_on(&mut self, at: Duration) {
        let Some(stopped) = self.stopped.take() else { return };
        self.stood += at - stopped;
        // Before anything is polled, so that whatever is late is found late.
        self.run(|_| advance(at - stopped));
    }

    /// Goes on for `time`, unless it stands still.
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
