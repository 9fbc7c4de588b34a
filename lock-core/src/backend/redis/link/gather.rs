//! A stream that decides when the commands of many tasks are sent.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// If this many bytes are gathered, they are sent without waiting for an answer. They contain a few dozen commands,
/// which the server executes while other tasks add more commands.
const ENOUGH: usize = 4 * 1024;

/// A stream that writes at once while no command is unanswered, and gathers commands otherwise.
///
/// The runtime polls the driver of a connection right after each task that sends a command. If the driver sent each
/// command alone, each command would cost client and server a system call and a packet. If the driver sent all commands
/// together, client and server would take turns and wait for each other. So gathered commands are sent when they have
/// at least as many bytes as all data sent since the last answer, or [`ENOUGH`] bytes. All other commands are sent when
/// the next answer arrives. So on a slow link, a command waits at most for the next answer.
#[derive(Debug)]
pub(crate) struct Gather<S> {
    stream: S,
    buffer: Vec<u8>,
    /// The number of bytes of `buffer` that were written to the stream.
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
    /// Writes the buffer to the stream, but does not flush the stream.
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
            // Any data counts as the answer to all commands. If more answers are still to arrive, the gathered commands
            // are only sent in a few more writes than necessary.
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
            // No waker is needed here: the driver also reads when it flushes, so the next answer wakes the driver.
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
