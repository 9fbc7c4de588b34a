//! A stream that sends the commands of many tasks in one system call.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of buffered bytes from which on a flush no longer gives way: a few dozen commands. Without a bound the
/// tasks of a busy client would march in step, and client and server would take turns instead of working at once.
const ENOUGH: usize = 4 * 1024;

/// A stream whose first flush after a write lets the runtime's other tasks run once.
///
/// The runtime polls the driver of a connection right after each task that sends a command. Without this stream every
/// command is a system call and a packet of its own. Here the flush gives way once, so that the commands of all tasks
/// that are ready leave together. There is no timer, so a task that is alone waits for nobody.
#[derive(Debug)]
pub(crate) struct Gather<S> {
    stream: S,
    buffer: Vec<u8>,
    /// The number of bytes of `buffer` that the stream has taken.
    written: usize,
    /// Whether the other tasks had their chance since the buffer was last empty.
    gave_way: bool,
}

impl<S> Gather<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), written: 0, gave_way: false }
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
        self.gave_way = false;
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
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let is_little = !self.buffer.is_empty() && self.buffer.len() < ENOUGH;
        if is_little && !self.gave_way {
            self.gave_way = true;
            // The runtime queues a task that wakes itself behind all tasks that are ready.
            cx.waker().wake_by_ref();
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
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::AsyncWriteExt;
    use tokio::sync::mpsc;

    use super::*;

    /// Records the size of each write, and takes at most `at_once` bytes of it.
    #[derive(Debug)]
    struct Recorder {
        writes: Arc<Mutex<Vec<usize>>>,
        at_once: usize,
    }

    impl AsyncWrite for Recorder {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
            let taken = bytes.len().min(self.at_once);
            self.writes.lock().expect("no panic").push(taken);
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn recorder(at_once: usize) -> (Gather<Recorder>, Arc<Mutex<Vec<usize>>>) {
        let writes = Arc::<Mutex<Vec<usize>>>::default();
        (Gather::new(Recorder { writes: Arc::clone(&writes), at_once }), writes)
    }

    /// Sends the commands of `tasks` tasks through one driver, as the driver of a connection does, and returns the writes.
    async fn writes_of(tasks: usize, size: usize) -> Vec<usize> {
        let (mut stream, writes) = recorder(usize::MAX);
        let (send, mut commands) = mpsc::unbounded_channel::<Vec<u8>>();
        let driver = tokio::spawn(async move {
            let mut next = commands.recv().await;
            while let Some(command) = next.take() {
                stream.write_all(&command).await.expect("a recorder takes all");
                // Commands come first, as in the driver: one that arrives while the flush gives way leaves with it.
                next = tokio::select! {
                    biased;
                    more = commands.recv() => more,
                    flushed = stream.flush() => { flushed.expect("a recorder takes all"); commands.recv().await }
                };
            }
            stream.shutdown().await.expect("a recorder takes all");
        });
        for _ in 0..tasks {
            let send = send.clone();
            tokio::spawn(async move { send.send(vec![0; size]).expect("the driver listens") });
        }
        drop(send);
        driver.await.expect("no panic");
        writes.lock().expect("no panic").clone()
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_tasks_that_are_ready_send_leaves_in_one_write() {
        assert_eq!(writes_of(64, 50).await, [3_200]);
    }

    #[tokio::test(start_paused = true)]
    async fn more_than_enough_leaves_in_parts() {
        let writes = writes_of(512, 50).await;
        assert_eq!(writes.iter().sum::<usize>(), 25_600, "nothing is lost");
        assert!(writes.iter().all(|write| *write < ENOUGH + 50), "{writes:?}");
        assert!(writes.len() < 10, "{writes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_alone_waits_for_no_timer() {
        // The paused clock moves only when every task waits for a timer.
        let writes = tokio::time::timeout(std::time::Duration::from_nanos(1), writes_of(1, 50)).await;
        assert_eq!(writes.expect("no timer"), [50]);
    }

    #[tokio::test]
    async fn a_stream_that_takes_little_gets_the_rest() {
        let (mut stream, writes) = recorder(7);
        stream.write_all(&[0; 20]).await.expect("a recorder takes all");
        stream.flush().await.expect("a recorder takes all");
        assert_eq!(*writes.lock().expect("no panic"), [7, 7, 6]);
    }

    #[tokio::test]
    async fn a_stream_that_takes_nothing_any_more_is_an_error() {
        let (mut stream, _) = recorder(0);
        stream.write_all(&[0; 20]).await.expect("buffered");
        assert_eq!(stream.flush().await.expect_err("nothing is taken").kind(), ErrorKind::WriteZero);
    }
}
