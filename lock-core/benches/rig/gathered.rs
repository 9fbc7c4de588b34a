//! The cheapest way to send the commands of many tasks: one write sends the commands of all ready tasks.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream whose flush lets the other tasks of the runtime run once before it writes.
#[derive(Debug)]
pub(crate) struct Gathered<S> {
    stream: S,
    buffer: Vec<u8>,
    written: usize,
    have_run: bool,
}

impl<S> Gathered<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), written: 0, have_run: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.buffer.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if !this.buffer.is_empty() && !std::mem::replace(&mut this.have_run, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        while this.written < this.buffer.len() {
            let rest = &this.buffer[this.written..];
            match ready!(Pin::new(&mut this.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(Error::from(ErrorKind::WriteZero))),
                taken => this.written += taken,
            }
        }
        this.buffer.clear();
        (this.written, this.have_run) = (0, false);
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
