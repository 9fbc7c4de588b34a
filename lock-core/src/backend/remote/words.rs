//! A stream that keeps the text with which a server refuses a connection.

use std::io::{ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sync::{Mutex, survives};

/// The number of bytes from the peer that are kept. A line with which a server refuses a connection is shorter.
const KEPT: usize = 256;

/// A stream to a server that may send a line of text and close the connection before it has read anything.
///
/// A driver may lose such a line in two ways. The driver may read the line before it has sent a request, and not treat
/// the line as an answer. Or its first write may fail, because the peer has closed the connection, and the driver then
/// reads nothing more. So this stream reads nothing before the first write, and a write to a closed peer succeeds. The
/// next read returns the line, and then the end of the stream.
///
/// A driver that has sent several commands may report the end of the connection instead of the line. So the first bytes
/// are also [kept](Self::heard).
#[derive(Debug)]
pub(crate) struct Words<S> {
    stream: S,
    /// Whether a request was written.
    has_asked: bool,
    /// Whether the peer has stopped reading.
    is_gone: bool,
    reader: Option<Waker>,
    /// The number of bytes that are still to be kept.
    keeps: usize,
    heard: Heard,
}

/// The first bytes from a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// Returns the first line without its line end, if the whole line has arrived.
    pub(crate) fn line(&self) -> Option<String> {
        let bytes = self.0.lock().clone();
        let line = &bytes[..bytes.windows(2).position(|end| end == b"\r\n")?];
        Some(String::from_utf8_lossy(line).into_owned())
    }
}

impl<S> Words<S> {
    pub(crate) fn new(stream: S) -> Self {
        let heard = Heard::default();
        Self { stream, has_asked: false, is_gone: false, reader: None, keeps: KEPT, heard }
    }

    /// Returns the buffer with the first bytes from the peer.
    pub(crate) fn heard(&self) -> Heard {
        self.heard.clone()
    }

    fn keep(&mut self, bytes: &[u8]) {
        let kept = &bytes[..bytes.len().min(self.keeps)];
        self.keeps -= kept.len();
        if !kept.is_empty() {
            self.heard.0.lock().extend_from_slice(kept);
        }
    }

    /// Returns the outcome of a write or a flush. If the peer has closed the connection, the outcome is a success.
    fn told<T>(&mut self, outcome: Poll<Result<T>>, gone: T) -> Poll<Result<T>> {
        match outcome {
            Poll::Ready(Err(error)) if is_gone(error.kind()) => {
                self.is_gone = true;
                Poll::Ready(Ok(gone))
            }
            outcome => outcome,
        }
    }
}

fn is_gone(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

impl<S: AsyncRead + Unpin> AsyncRead for Words<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if !self.has_asked {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.keep(buffer.filled().get(before..).unwrap_or_default());
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Words<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if !self.has_asked {
            self.has_asked = true;
            if let Some(reader) = self.reader.take() {
                survives(|| reader.wake());
            }
        }
        if self.is_gone {
            return Poll::Ready(Ok(bytes.len()));
        }
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.told(outcome, bytes.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.is_gone {
            return Poll::Ready(Ok(()));
        }
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.told(outcome, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const WORDS: &[u8] = b"-ERR max number of clients reached\r\n";

    /// The peer has closed the connection before the first byte is sent to it.
    #[tokio::test]
    async fn the_words_of_a_peer_that_has_closed_are_read() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (mut peer, _) = listener.accept().await.expect("it connects");
        peer.write_all(WORDS).await.expect("sent");
        drop(peer);
        let mut stream = Words::new(stream);
        let kept = stream.heard();
        for _ in 0..20 {
            stream.write_all(b"HELLO 3\r\n").await.expect("no error hides the words");
            stream.flush().await.expect("no error hides the words");
            // The reset of the connection by the kernel takes a moment.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard).await;
        assert_eq!(heard, WORDS);
        assert_eq!(kept.line().as_deref(), Some("-ERR max number of clients reached"));
    }

    #[tokio::test]
    async fn nothing_is_read_before_something_was_asked() {
        let (mut peer, stream) = tokio::io::duplex(64);
        peer.write_all(WORDS).await.expect("sent");
        let (mut read, mut write) = tokio::io::split(Words::new(stream));
        let reading = tokio::spawn(async move {
            let mut heard = [0; WORDS.len()];
            read.read_exact(&mut heard).await.map(|_| heard)
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!reading.is_finished());
        write.write_all(b"HELLO 3\r\n").await.expect("sent");
        assert_eq!(reading.await.expect("no panic").expect("the words"), WORDS);
    }
}
