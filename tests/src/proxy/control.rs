//! The control of a proxy by the test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;

use super::relay;
use crate::port::Port;
use crate::redis_server::RedisServer;
use crate::wait::PATIENCE;

/// The treatment of the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// The bytes pass.
    #[default]
    Pass,
    /// The bytes wait in the proxy. They are delivered in order once the flow is [`Pass`](Self::Pass) again, even if
    /// the client has closed its end meanwhile. This simulates a partition, after which the kernel retransmits.
    Hold,
    /// The bytes are lost, and the connection stays open.
    Swallow,
}

/// The settings that the test has chosen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    pub(super) delay: Duration,
    pub(super) refuse: bool,
    pub(super) deaf: bool,
    /// The number of cuts so far.
    pub(super) cuts: u32,
}

/// The traffic since the start of the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of connections that clients have opened.
    pub opened: u32,
    /// The number of currently open connections.
    pub open: u32,
    /// The bytes from clients to the server.
    pub requests: Bytes,
    /// The bytes from the server to clients.
    pub replies: Bytes,
}

/// The bytes of one direction since the start of the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The bytes read from the sender.
    pub seen: u64,
    /// The delivered bytes.
    pub passed: u64,
    /// The bytes that had to wait, even if they were delivered later.
    pub held: u64,
    /// The lost bytes.
    pub swallowed: u64,
}

/// A proxy in front of a server, with its own thread and runtime.
///
/// The proxy works even while the test blocks its own runtime, or has paused its clock. A change applies to every byte
/// that is sent after the call, and at once on open connections. Dropping the proxy resets every connection.
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
    /// Starts a proxy in front of a Redis server.
    ///
    /// # Panics
    /// When the proxy cannot listen.
    #[must_use]
    pub fn before(server: &RedisServer) -> Self {
        let mut proxy = Self::to(server.address());
        proxy.url = server.url_at(proxy.port());
        proxy
    }

    /// Starts a proxy in front of any TCP server.
    ///
    /// # Panics
    /// When the proxy cannot listen.
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

    /// Returns the URL of the server through this proxy, with the server's password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns the port of 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.address().port()
    }

    /// Sets the treatment of bytes from clients to the server.
    pub fn requests(&self, flow: Flow) {
        self.settings.send_modify(|settings| settings.requests = flow);
    }

    /// Sets the treatment of bytes from the server to clients.
    pub fn replies(&self, flow: Flow) {
        self.settings.send_modify(|settings| settings.replies = flow);
    }

    /// Delays every chunk by `each_way`, in both directions. Chunks of one direction queue, so a chunk that arrives
    /// while another waits takes up to twice as long.
    pub fn delay(&self, each_way: Duration) {
        self.settings.send_modify(|settings| settings.delay = each_way);
    }

    /// Resets every open connection (RST at both ends). Bytes that wait in the proxy are lost.
    pub fn cut(&self) {
        self.settings.send_modify(|settings| settings.cuts += 1);
    }

    /// Cuts the network between the proxy and the server. On the open connections, the proxy's kernel drops every
    /// packet of the server, including acknowledgements, and passes no data of a client on. To the clients, the peer
    /// accepts their data. Only new connections are not affected.
    pub fn cut_off_server(&self) {
        self.settings.send_modify(|settings| {
            (settings.requests, settings.replies, settings.deaf) = (Flow::Hold, Flow::Hold, true);
        });
    }

    /// Makes the proxy refuse new connections, like a host without a listener, or accept them again. Open connections
    /// stay open.
    pub fn refuse(&self, refuse: bool) {
        self.settings.send_modify(|settings| settings.refuse = refuse);
    }

    /// Removes every fault. Waiting bytes are delivered.
    pub fn heal(&self) {
        self.settings
            .send_modify(|settings| *settings = Settings { cuts: settings.cuts, ..Settings::default() });
    }

    /// Runs `connecting` while the servers of these proxies do not answer until `late` after the first bytes of the
    /// client.
    ///
    /// # Panics
    /// When `connecting` ends before that time, or sends nothing.
    pub async fn greeting_late<T: Send + 'static>(
        proxies: &[Self],
        late: Duration,
        connecting: impl Future<Output = T> + Send + 'static,
    ) -> T {
        for proxy in proxies {
            proxy.replies(Flow::Hold);
        }
        let connecting = tokio::spawn(connecting);
        proxies[0].until("the greeting waits", |traffic| traffic.requests.passed > 0).await;
        tokio::time::sleep(late).await;
        assert!(!connecting.is_finished(), "it does not wait for the greeting");
        proxies.iter().for_each(Self::heal);
        connecting.await.expect("no panic")
    }

    /// Returns the traffic so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        *self.traffic.borrow()
    }

    /// Waits until the traffic fulfils `condition`, as in `proxy.until("a request waits", |t| t.requests.held > 0)`.
    ///
    /// # Panics
    /// When the wait takes longer than [`PATIENCE`].
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
            // The panic of the thread was already printed, and another panic here could abort.
            let _ = thread.join();
        }
    }
}
