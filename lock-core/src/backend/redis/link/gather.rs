//! A stream that decides when the commands of many tasks leave.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of gathered bytes that leave in any case: a few dozen commands. The server works on them while the other
/// tasks still send.
const ENOUGH: usize = 4 * 1024;

/// A stream that writes at once while nothing is unanswered, and gathers commands otherwise.
///
/// The runtime polls the driver of a connection right after each task that sends a command. If each command left alone,
/// each would cost both sides a system call and a packet. If all of them left together, client and server would take
/// turns at working. So commands leave when they are at least as long as all that was sent since the last answer, or
/// [`ENOUGH`]. The next answer lets the rest leave. On a long link a command thus waits for the next answer at most.
#[derive(Debug)]
pub(crate) struct Gather<S> {
    stream: S,
    buffer: Vec<u8>,
    /// The number of bytes of `buffer` that the stream has taken.
    written: usize,
    /// The number of bytes that were sent since the last answer.
    unanswered: usize,
}

impl<S> Gather<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), written: 0, unanswered: 0 }
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
        self.unanswered += self.written;
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
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            // Other answers may be under way. Then the rest leaves in a few more writes than necessary.
            self.unanswered = 0;
        }
        read
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
        let waits = self.buffer.len() < self.unanswered.min(ENOUGH);
        if waits && self.written == 0 && !self.buffer.is_empty() {
            // The driver reads whenever it flushes, so the next answer wakes it.
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
