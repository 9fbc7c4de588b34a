//! A stream that sends the commands of many tasks in one system call.

use std::future::poll_fn;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;

use crate::sync::{Mutex, Notify};

/// The number of buffered bytes from which on a flush no longer waits: a few dozen commands. The server works on them
/// while the other tasks still send.
const ENOUGH: usize = 4 * 1024;

/// The number of bytes that the other tasks send in one round from which on the driver runs last in the next: more than
/// a hundred commands. With that many tasks, a driver that runs in between wakes those that were just served before
/// those that still wait, because their answers come so soon.
const MANY: usize = 12 * 1024;

/// A stream whose flush lets the runtime's other tasks run first.
///
/// The runtime polls the driver of a connection right after each task that sends a command. Without this stream every
/// command is a system call and a packet of its own. Here a flush waits for the tasks that are ready, so that their
/// commands leave together, but for no more than [`ENOUGH`] bytes. There is no timer, so a task that is alone waits for
/// nobody.
#[derive(Debug)]
pub(crate) struct Gather<S> {
    stream: S,
    buffer: Vec<u8>,
    /// The number of bytes of `buffer` that the stream has taken.
    written: usize,
    /// How the flush that is under way waits for the other tasks.
    waits: Option<Waits>,
    /// The number of bytes since they last had run.
    round: usize,
    /// Whether they sent [`MANY`] bytes in the last round.
    are_many: bool,
    others: Arc<Others>,
    last: JoinHandle<()>,
}

/// How a flush waits for the other tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Another task wakes the driver once they have run. Meanwhile each of their commands does.
    Awake,
    /// The driver is queued behind them. Their commands do not wake it.
    Queued,
}

/// The other tasks, for which a flush waits.
#[derive(Debug, Default)]
struct Others {
    /// Whether they have run.
    have_run: AtomicBool,
    driver: Mutex<Option<Waker>>,
    asked: Notify,
}

impl Others {
    fn ask(&self) {
        self.have_run.store(false, Ordering::Release);
        self.asked.notify_one();
    }

    fn have_run(&self, cx: &Context<'_>) -> bool {
        let waker = cx.waker().clone();
        drop(self.driver.with(|driver| driver.replace(waker)));
        // After the waker is there, or nobody might wake it.
        self.have_run.load(Ordering::Acquire)
    }

    /// Wakes the driver each time the tasks that were ready have run. In a task of its own: if the driver queued itself
    /// behind the others, their commands could not wake it before all of them had run, and the server would have
    /// nothing to do until then.
    async fn run(self: Arc<Self>) {
        loop {
            self.asked.notified().await;
            behind_all_that_are_ready().await;
            self.have_run.store(true, Ordering::Release);
            let driver = self.driver.with(Option::take);
            driver.into_iter().for_each(Waker::wake);
        }
    }
}

/// Lets the tasks that are ready run: the runtime queues a task that wakes itself behind them.
pub(super) async fn behind_all_that_are_ready() {
    let mut queued = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut queued, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<S> Gather<S> {
    /// Call it in the runtime of the driver.
    pub(crate) fn new(stream: S) -> Self {
        let others = Arc::<Others>::default();
        let last = tokio::spawn(Arc::clone(&others).run());
        Self { stream, buffer: Vec::new(), written: 0, waits: None, round: 0, are_many: false, others, last }
    }

    /// Returns whether the other tasks have run since the flush began.
    fn poll_others(&mut self, cx: &Context<'_>) -> bool {
        let have_run = match self.waits {
            None if self.are_many => {
                self.waits = Some(Waits::Queued);
                cx.waker().wake_by_ref();
                false
            }
            None => {
                self.waits = Some(Waits::Awake);
                self.others.ask();
                self.others.have_run(cx)
            }
            Some(Waits::Queued) => true,
            Some(Waits::Awake) => self.others.have_run(cx),
        };
        if have_run {
            self.are_many = self.round >= MANY;
            (self.waits, self.round) = (None, 0);
        }
        have_run
    }
}

impl<S> Drop for Gather<S> {
    fn drop(&mut self) {
        self.last.abort();
    }
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    /// Writes the buffer to the stream; does not flush the stream.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while self.written < self.buffer.len() {
            let rest = &self.buffer[self.written..];
            let taken = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if taken == 0 {
                return Poll::Ready(Err(Error::from(ErrorKind::WriteZero)));
            }
            self.written += taken;
        }
        self.buffer.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if self.buffer.len() >= ENOUGH {
            ready!(self.poll_drain(cx))?;
        }
        self.buffer.extend_from_slice(bytes);
        self.round += bytes.len();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let is_little = !self.buffer.is_empty() && self.written == 0 && self.buffer.len() < ENOUGH;
        if is_little && !self.poll_others(cx) {
            return Poll::Pending;
        }
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
