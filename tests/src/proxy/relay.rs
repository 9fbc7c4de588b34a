//! The thread of the proxy. It accepts connections and passes bytes on according to the settings.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use super::control::{Bytes, Flow, Settings, Traffic};
use crate::port::Port;

type Orders = watch::Receiver<Settings>;

pub(super) fn run(
    port: &Port,
    server: SocketAddr,
    orders: Orders,
    seen: watch::Sender<Traffic>,
    ready: &mpsc::Sender<()>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("cannot start a runtime");
    runtime.block_on(async {
        tokio::select! {
            () = accept(port, server, orders, seen, ready) => {}
            // An error means that the handle was dropped, which also stops the thread.
            _ = stopped => {}
        }
    });
}

async fn accept(
    port: &Port,
    server: SocketAddr,
    mut orders: Orders,
    seen: watch::Sender<Traffic>,
    ready: &mpsc::Sender<()>,
) {
    let mut listener = Some(port.listen());
    let _ = ready.send(());
    loop {
        tokio::select! {
            changed = orders.changed() => {
                if changed.is_err() {
                    return;
                }
                match (orders.borrow_and_update().refuse, &listener) {
                    (true, Some(_)) => listener = None,
                    (false, None) => listener = Some(port.listen()),
                    _ => {}
                }
            }
            Some(mut client) = next(listener.as_ref()) => {
                // The settings are read now, so that a change meanwhile also applies to this connection.
                let Settings { refuse, cuts, .. } = *orders.borrow();
                match refuse {
                    true => reset(&mut client),
                    false => drop(tokio::spawn(connect(client, server, (orders.clone(), cuts), seen.clone()))),
                }
            }
        }
    }
}

/// Returns the next client. Never completes if there is no listener.
async fn next(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(client, _)| client),
        None => std::future::pending().await,
    }
}

/// The settings, and the number of cuts at the time at which the client connected.
type Since = (Orders, u32);

async fn connect(mut client: TcpStream, server: SocketAddr, orders: Since, seen: watch::Sender<Traffic>) {
    seen.send_modify(|traffic| {
        traffic.opened += 1;
        traffic.open += 1;
    });
    match TcpStream::connect(server).await {
        Ok(server) => relay(client, server, orders, &seen).await,
        Err(_) => reset(&mut client),
    }
    seen.send_modify(|traffic| traffic.open -= 1);
}

/// Passes bytes in both directions until both have ended or the connection is cut.
async fn relay(
    mut client: TcpStream,
    mut server: TcpStream,
    (orders, cuts): Since,
    seen: &watch::Sender<Traffic>,
) {
    // Without this setting, the kernel would wait for more bytes before it sends a short chunk, and falsify the
    // measurements.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let socket = server.as_fd().try_clone_to_owned();
    let was_cut = {
        let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
        let requests = Pump { orders: orders.clone(), seen, side: &REQUESTS };
        let replies = Pump { orders: orders.clone(), seen, side: &REPLIES };
        tokio::select! {
            _ = async { tokio::join!(requests.run(from_client, to_server), replies.run(from_server, to_client)) } => false,
            () = cut(orders.clone(), cuts) => true,
            () = deafen(orders.clone(), socket) => false,
        }
    };
    if was_cut {
        reset(&mut client);
        reset(&mut server);
    }
}

/// Completes when the number of cuts is larger than `before`, or when the proxy ends.
async fn cut(mut orders: Orders, before: u32) {
    let _ = orders.wait_for(|settings| settings.cuts != before).await;
}

/// Drops every packet for a socket as soon as the settings require it.
async fn deafen(mut orders: Orders, socket: std::io::Result<OwnedFd>) {
    if orders.wait_for(|settings| settings.deaf).await.is_ok() {
        const DROP: u16 = 0x06;
        let socket = socket2::Socket::from(socket.expect("the socket can be cloned"));
        socket.attach_filter(&[socket2::SockFilter::new(DROP, 0, 0, 0)]).expect("Linux has socket filters");
        std::future::pending::<()>().await;
    }
    std::future::pending().await
}

/// Makes the next close send an RST.
fn reset(stream: &mut TcpStream) {
    let _ = stream.set_zero_linger();
}

/// One of the two directions of a connection.
struct Side {
    flow: fn(&Settings) -> Flow,
    bytes: fn(&mut Traffic) -> &mut Bytes,
}

static REQUESTS: Side = Side { flow: |settings| settings.requests, bytes: |traffic| &mut traffic.requests };
static REPLIES: Side = Side { flow: |settings| settings.replies, bytes: |traffic| &mut traffic.replies };

struct Pump<'a> {
    orders: Orders,
    seen: &'a watch::Sender<Traffic>,
    side: &'static Side,
}

impl Pump<'_> {
    async fn run(mut self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>) {
        let mut buffer = vec![0; 64 * 1024];
        // An error of the sender ends the direction, like the end of its stream.
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            self.count(length, |bytes| &mut bytes.seen);
            if !self.may_pass(length).await {
                self.count(length, |bytes| &mut bytes.swallowed);
                continue;
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
            self.count(length, |bytes| &mut bytes.passed);
        }
        // The end of the stream is treated like a chunk. It overtakes nothing, is delayed like a chunk, and does not
        // pass while nothing passes.
        let (delay, side) = (self.orders.borrow().delay, self.side);
        tokio::time::sleep(delay).await;
        if self.orders.wait_for(|settings| (side.flow)(settings) == Flow::Pass).await.is_ok() {
            let _ = to.shutdown().await;
        }
    }

    /// Waits as long as the settings require. Returns whether the chunk passes or is lost.
    async fn may_pass(&mut self, length: usize) -> bool {
        let delay = self.orders.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let side = self.side;
        if (side.flow)(&self.orders.borrow()) == Flow::Hold {
            self.count(length, |bytes| &mut bytes.held);
        }
        match self.orders.wait_for(|settings| (side.flow)(settings) != Flow::Hold).await {
            Ok(settings) => (side.flow)(&settings) == Flow::Pass,
            Err(_) => false,
        }
    }

    fn count(&self, length: usize, field: fn(&mut Bytes) -> &mut u64) {
        self.seen.send_modify(|traffic| *field((self.side.bytes)(traffic)) += length as u64);
    }
}
