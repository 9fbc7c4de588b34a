use std::future::poll_fn;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A stream that answers each read with one byte. The stream records the size of each write, and accepts at most
/// `at_once` bytes at once.
#[derive(Debug)]
struct Recorder {
    writes: Arc<Mutex<Vec<usize>>>,
    at_once: usize,
}

impl AsyncRead for Recorder {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        buffer.put_slice(b"1");
        Poll::Ready(Ok(()))
    }
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

/// Sends one command and polls the stream once, as the driver of a connection does. Returns whether the command was
/// sent.
async fn send(stream: &mut Gather<Recorder>, size: usize) -> bool {
    stream.write_all(&vec![0; size]).await.expect("buffered");
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *stream).poll_flush(cx).is_ready())).await
}

async fn receive(stream: &mut Gather<Recorder>) {
    stream.read_u8().await.expect("an answer");
}

#[tokio::test]
async fn each_write_is_as_large_as_all_that_is_unanswered() {
    let (mut stream, writes) = recorder(usize::MAX);
    for _ in 0..16 {
        send(&mut stream, 100).await;
    }
    assert_eq!(*writes.lock().expect("no panic"), [100, 100, 200, 400, 800]);
}

#[tokio::test]
async fn a_command_leaves_at_once_while_nothing_is_unanswered() {
    let (mut stream, writes) = recorder(usize::MAX);
    for _ in 0..3 {
        assert!(send(&mut stream, 100).await);
        receive(&mut stream).await;
    }
    assert_eq!(*writes.lock().expect("no panic"), [100, 100, 100]);
}

#[tokio::test]
async fn what_is_gathered_leaves_with_the_next_answer() {
    let (mut stream, writes) = recorder(usize::MAX);
    assert!(send(&mut stream, 1_000).await);
    for _ in 0..3 {
        assert!(!send(&mut stream, 100).await);
    }
    receive(&mut stream).await;
    stream.flush().await.expect("a recorder takes all");
    assert_eq!(*writes.lock().expect("no panic"), [1_000, 300]);
}

#[tokio::test]
async fn enough_leaves_whatever_is_unanswered() {
    let (mut stream, writes) = recorder(usize::MAX);
    assert!(send(&mut stream, 100 * ENOUGH).await);
    assert!(!send(&mut stream, ENOUGH - 1).await);
    assert!(send(&mut stream, 1).await);
    assert_eq!(*writes.lock().expect("no panic"), [100 * ENOUGH, ENOUGH]);
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
