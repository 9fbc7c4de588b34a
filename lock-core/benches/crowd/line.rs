//! A TCP line that delays what passes, without a limit of what is under way.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

/// A line in front of a server on this machine, with a runtime of its own.
pub(crate) struct Line {
    pub(crate) port: u16,
    _runtime: Runtime,
}

impl Line {
    pub(crate) fn to(server: u16, each_way: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await {
                    let _ = (client.set_nodelay(true), server.set_nodelay(true));
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    pass(from_client, to_server, each_way);
                    pass(from_server, to_client, each_way);
                }
            }
        });
        Self { port, _runtime: runtime }
    }
}

/// Passes what is read on, each piece so much later.
fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, after: Duration) {
    let (sender, mut pieces) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            if sender.send((Instant::now() + after, buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((due, piece)) = pieces.recv().await {
            if !after.is_zero() {
                tokio::time::sleep_until(due.into()).await;
            }
            if to.write_all(&piece).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    });
}
