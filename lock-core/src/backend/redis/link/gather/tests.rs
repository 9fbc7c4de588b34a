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

/// Sends what it receives, as the driver of a connection does.
async fn drive(mut stream: Gather<Recorder>, mut commands: mpsc::UnboundedReceiver<Vec<u8>>) {
    let mut next = commands.recv().await;
    while let Some(command) = next.take() {
        stream.write_all(&command).await.expect("a recorder takes all");
        // Commands come first, as in the driver: one that arrives while the flush waits leaves with it.
        next = tokio::select! {
            biased;
            more = commands.recv() => more,
            flushed = stream.flush() => { flushed.expect("a recorder takes all"); commands.recv().await }
        };
    }
    stream.shutdown().await.expect("a recorder takes all");
}

/// Sends the commands of `tasks` tasks through one driver and returns the writes.
async fn writes_of(tasks: usize, size: usize) -> Vec<usize> {
    let (stream, writes) = recorder(usize::MAX);
    let (send, commands) = mpsc::unbounded_channel();
    let driver = tokio::spawn(drive(stream, commands));
    for _ in 0..tasks {
        let send = send.clone();
        tokio::spawn(async move { send.send(vec![0; size]).expect("the driver listens") });
    }
    drop(send);
    driver.await.expect("no panic");
    writes.lock().expect("no panic").clone()
}

/// Sends `first` bytes, waits until they have left, and sends one byte while four tasks are ready to send half of
/// [`ENOUGH`] each. Returns the writes and, as a 0, the end of each of the four tasks.
async fn order_after(first: usize) -> Vec<usize> {
    let (stream, order) = recorder(usize::MAX);
    let (send, commands) = mpsc::unbounded_channel();
    let driver = tokio::spawn(drive(stream, commands));
    for bytes in [first, 1] {
        send.send(vec![0; bytes]).expect("the driver listens");
        while order.lock().expect("no panic").pop() != Some(bytes) {
            tokio::task::yield_now().await;
        }
    }
    for _ in 0..4 {
        let (send, order) = (send.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            send.send(vec![0; ENOUGH / 2]).expect("the driver listens");
            order.lock().expect("no panic").push(0);
        });
    }
    // The last to wake the driver, which the runtime polls next.
    send.send(vec![0; 1]).expect("the driver listens");
    drop(send);
    driver.await.expect("no panic");
    order.lock().expect("no panic").clone()
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

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_server_gets_work_while_others_still_send() {
    assert_eq!(tokio::spawn(order_after(1)).await.expect("no panic"), [0, 0, ENOUGH + 1, 0, 0, ENOUGH]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn after_a_round_of_many_the_driver_runs_last() {
    assert_eq!(tokio::spawn(order_after(MANY)).await.expect("no panic"), [0, 0, 0, 0, ENOUGH + 1, ENOUGH]);
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
