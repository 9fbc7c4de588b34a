//! The handle of a test on its proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use super::relay;
use crate::port::Port;
use crate::redis_server::RedisServer;
use crate::wait::PATIENCE;

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// They pass.
    #[default]
    Pass,
    /// They wait in the proxy and are delivered in order once the flow is [`Pass`](Self::Pass) again, also when the
    /// client has closed its end meanwhile: as after a partition, when the kernel sends again.
    Hold,
    /// They are lost; the connection stays open.
    Swallow,
}

/// What the test has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    pub(super) delay: Duration,
    pub(super) refuse: bool,
    /// Grows with every cut.
    pub(super) cuts: u32,
}

/// What the proxy has seen since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections that clients have opened.
    pub opened: u32,
    /// Connections that are open now.
    pub open: u32,
    /// From clients to the server.
    pub requests: Bytes,
    /// From the server to clients.
    pub replies: Bytes,
}

/// Bytes of one direction since the start of the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Read from the sender.
    pub seen: u64,
    /// Delivered.
    pub passed: u64,
    /// Made to wait, whatever became of them.
    pub held: u64,
    /// Lost.
    pub swallowed: u64,
}

/// A proxy in front of a server, on a thread and a runtime of its own.
///
/// So it works while the test blocks its own runtime, or has paused its clock. A change counts for every byte that a
/// client or the server sends after the call that made it; connections that are open feel it at once. Dropping the
/// proxy resets every connection.
#[derive(Debug)]
pub struct Proxy {
    settings: watch::Sender<Settings>,
    traffic: watch::Receiver<Traffic>,
    port: Arc<Port>,
    url: String,
    thread: Option<JoinHandle<()>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Proxy {
    /// Puts a proxy in front of a Redis server.
    ///
    /// # Panics
    /// When it cannot listen.
    #[must_use]
    pub fn before(server: &RedisServer) -> Self {
        let mut proxy = Self::to(server.address());
        proxy.url = server.url_at(proxy.port());
        proxy
    }

    /// Puts a proxy in front of any TCP server.
    ///
    /// # Panics
    /// When it cannot listen.
    #[must_use]
    pub fn to(server: SocketAddr) -> Self {
        let port = Arc::new(Port::reserve());
        let (settings, orders) = watch::channel(Settings::default());
        let (seen, traffic) = watch::channel(Traffic::default());
        let (ready, listening) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn({
            let port = Arc::clone(&port);
            move || relay::run(&port, server, orders, seen, &ready, stopped)
        });
        listening.recv().expect("the proxy cannot listen");
        let url = format!("tcp://{}", port.address());
        Self { settings, traffic, port, url, thread: Some(thread), stop: Some(stop) }
    }

    /// The server's URL by way of this proxy, with the server's password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The port of 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.address().port()
    }

    /// Sets what happens to bytes from clients to the server.
    pub fn requests(&self, flow: Flow) {
        self.settings.send_modify(|settings| settings.requests = flow);
    }

    /// Sets what happens to bytes from the server to clients.
    pub fn replies(&self, flow: Flow) {
        self.settings.send_modify(|settings| settings.replies = flow);
    }

    /// Keeps every piece back for `each_way` before it goes on, in both directions. Pieces of one direction queue, so
    /// one that arrives while another waits takes up to twice as long.
    pub fn delay(&self, each_way: Duration) {
        self.settings.send_modify(|settings| settings.delay = each_way);
    }

    /// Resets every open connection (RST at both ends); bytes that wait in the proxy are lost.
    pub fn cut(&self) {
        self.settings.send_modify(|settings| settings.cuts += 1);
    }

    /// Refuses new connections, as a host does on which nothing listens, or accepts them again. Open ones stay.
    pub fn refuse(&self, refuse: bool) {
        self.settings.send_modify(|settings| settings.refuse = refuse);
    }

    /// Takes every fault back. What waits is delivered.
    pub fn heal(&self) {
        self.settings
            .send_modify(|settings| *settings = Settings { cuts: settings.cuts, ..Settings::default() });
    }

    /// What has passed until now.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        *self.traffic.borrow()
    }

    /// Waits until the traffic fulfils `condition`, as in `proxy.until("a request waits", |t| t.requests.held > 0)`.
    ///
    /// # Panics
    /// When that takes longer than [`PATIENCE`].
    pub async fn until(&self, what: &str, condition: impl FnMut(&Traffic) -> bool) -> Traffic {
        let mut traffic = self.traffic.clone();
        let waited = tokio::time::timeout(PATIENCE, traffic.wait_for(condition)).await;
        let reached =
            waited.unwrap_or_else(|_| panic!("waited {PATIENCE:?} in vain: {what}: {:?}", self.traffic()));
        *reached.expect("BUG: the proxy's thread lives as long as its handle")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed; another one here could abort.
            let _ = thread.join();
        }
    }
}
