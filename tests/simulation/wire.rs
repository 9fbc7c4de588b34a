//! The client side of a simulated connection.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

use crate::journal;

/// A connection that a client has made. If the client's machine dies, no peer is notified. The bytes that were sent
/// before still arrive, and nothing else. (Closing the connections would notify the servers in an order that no seed
/// determines.)
pub(crate) struct Wire(Option<TcpStream>);

thread_local! {
    static CUT: RefCell<Vec<TcpStream>> = const { RefCell::new(Vec::new()) };
}

impl Wire {
    pub(crate) async fn connect(host: String, port: u16) -> io::Result<Self> {
        TcpStream::connect((host, port)).await.map(|stream| Self(Some(stream)))
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(self.get_mut().0.as_mut().expect("it is there until it is dropped"))
    }
}

/// Drops the connections of dead clients outside of the world, so that no peer is notified.
pub(crate) fn bury() {
    CUT.take();
}

impl Drop for Wire {
    fn drop(&mut self) {
        if journal::is_stopped() {
            CUT.with_borrow_mut(|cut| cut.extend(self.0.take()));
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
