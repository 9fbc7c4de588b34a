//! A primary, a replica, and three sentinels that watch them.

use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use crate::certificates::Certificates;
use crate::directory::Directory;
use crate::port::Port;
use crate::process::Process;
use crate::redis_server::{self, RedisServer};
use crate::replica::Replica;
use crate::starts::start_in_turn;
use crate::wait::{Bound, START_WITHIN, monotonic};

/// The time after which a silent primary counts as dead.
const DOWN_AFTER: Duration = Duration::from_secs(1);
const NAME: &str = "mymaster";

/// One of the sentinels.
#[derive(Debug)]
struct Sentinel {
    // The fields are dropped in this order.
    process: Process,
    _directory: Directory,
    port: Port,
    /// The port for TLS, in addition to the plain one.
    tls: Option<Port>,
}

/// Three sentinels, the primary and its replica. A failover takes about two seconds.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Sentinel>,
    /// The first primary.
    pub primary: RedisServer,
    /// The first replica.
    pub replica: Replica,
}

impl Sentinels {
    /// Starts the servers and sentinels, and returns when they all know each other.
    ///
    /// # Panics
    /// When Redis is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        start_in_turn(Self::begin)
    }

    fn begin() -> Self {
        let primary = RedisServer::builder().config("min-replicas-to-write", "0").start();
        let replica = Replica::of(&primary);
        let sentinels = (0..3).map(|_| Sentinel::watch(&primary)).collect();
        let made = Self { sentinels, primary, replica };
        made.wait_ready();
        made
    }

    /// Starts servers and sentinels that use TLS among each other and with clients. Otherwise like
    /// [`start`](Self::start).
    ///
    /// # Panics
    /// When the conditions of [`start`](Self::start) apply.
    #[must_use]
    pub fn start_secure(certificates: &Certificates) -> Self {
        start_in_turn(|| Self::begin_secure(certificates))
    }

    fn begin_secure(certificates: &Certificates) -> Self {
        let primary = RedisServer::builder()
            .tls(certificates, false)
            .config("tls-replication", "yes")
            .config("min-replicas-to-write", "0")
            .start();
        let replica = Replica::secure(&primary, certificates);
        let sentinels = (0..3).map(|_| Sentinel::start(primary.tls_port(), Some(certificates))).collect();
        let made = Self { sentinels, primary, replica };
        made.wait_ready();
        made
    }

    /// Returns the `host:port` of each sentinel for clients with TLS, separated by commas.
    ///
    /// # Panics
    /// When the sentinels were started without TLS.
    #[must_use]
    pub fn secure_hosts(&self) -> String {
        let port =
            |sentinel: &Sentinel| sentinel.tls.as_ref().expect("sentinels with TLS").address().to_string();
        self.sentinels.iter().map(port).collect::<Vec<_>>().join(",")
    }

    /// Returns `redis+sentinel://` with all three sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(NAME)
    }

    /// Returns the same URL for a primary of another name.
    #[must_use]
    pub fn url_of(&self, name: &str) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|sentinel| sentinel.port.address().to_string()).collect();
        format!("redis+sentinel://{}/{name}", hosts.join(","))
    }

    /// Runs one command on each sentinel. If the command makes a login necessary, the other methods cannot log in.
    ///
    /// # Panics
    /// When a sentinel does not answer, or refuses.
    pub fn command(&self, parts: &[&str]) {
        let (name, arguments) = parts.split_first().expect("a command has a name");
        for sentinel in &self.sentinels {
            let mut connection = sentinel.connection().expect("the sentinel answers");
            let outcome = redis::cmd(name).arg(arguments).exec(&mut connection);
            outcome.unwrap_or_else(|error| panic!("sentinel command {parts:?}: {error}"));
        }
    }

    /// Makes a sentinel promote the replica although the primary works.
    ///
    /// # Panics
    /// When the sentinel refuses.
    pub fn fail_over(&self) {
        let mut connection = self.sentinels[0].connection().expect("a sentinel answers");
        let _: () =
            redis::cmd("SENTINEL").arg("FAILOVER").arg(NAME).query(&mut connection).expect("a failover");
    }

    /// Kills one sentinel.
    ///
    /// # Panics
    /// When no sentinel has this number.
    pub fn kill(&mut self, number: usize) {
        self.sentinels[number].process.kill9();
    }

    /// Returns the port of the primary, as a sentinel reports it.
    ///
    /// # Panics
    /// When no sentinel answers.
    #[must_use]
    pub fn primary_port(&self) -> u16 {
        let ask = |sentinel: &Sentinel| -> Option<(String, u16)> {
            let mut command = redis::cmd("SENTINEL");
            command.arg("GET-MASTER-ADDR-BY-NAME").arg(NAME);
            command.query(&mut sentinel.connection()?).ok()
        };
        self.sentinels.iter().find_map(ask).expect("a sentinel answers").1
    }

    /// Starts to listen to the sentinels. The channel receives the time at which the first sentinel names another
    /// primary, by [`monotonic`].
    ///
    /// # Panics
    /// When a sentinel does not answer.
    #[must_use]
    pub fn switched(&self) -> mpsc::Receiver<Duration> {
        let ((tell, told), (ready, listens)) = (mpsc::channel(), mpsc::channel());
        for sentinel in &self.sentinels {
            let mut connection = sentinel.connection().expect("the sentinel answers");
            let (tell, ready) = (tell.clone(), ready.clone());
            std::thread::spawn(move || {
                let mut channel = connection.as_pubsub();
                channel.subscribe("+switch-master").expect("a sentinel can be listened to");
                channel.set_read_timeout(Some(START_WITHIN)).expect("a timeout");
                ready.send(()).expect("somebody waits");
                if channel.get_message().is_ok() {
                    // The receiver reads only the first time.
                    let _ = tell.send(monotonic());
                }
            });
        }
        for _ in &self.sentinels {
            listens.recv_timeout(START_WITHIN).expect("every sentinel can be listened to");
        }
        told
    }

    fn wait_ready(&self) {
        Bound::new(START_WITHIN)
            .block_until("every sentinel knows everybody", || self.sentinels.iter().all(Sentinel::knows_all));
    }
}

impl Sentinel {
    fn watch(primary: &RedisServer) -> Self {
        Self::start(primary.port(), None)
    }

    fn start(primary: u16, certificates: Option<&Certificates>) -> Self {
        let (directory, port) = (Directory::in_memory(), Port::reserve());
        let tls = certificates.map(|_| Port::reserve());
        let file = directory.path().join("sentinel.conf");
        let down_after = DOWN_AFTER.as_millis();
        let mut text = format!(
            "bind 127.0.0.1\nport {}\ndir {}\nlogfile log\nsentinel monitor {NAME} 127.0.0.1 {} 2\n\
             sentinel down-after-milliseconds {NAME} {down_after}\nsentinel failover-timeout {NAME} 3000\n\
             sentinel parallel-syncs {NAME} 1\n",
            port.address().port(),
            directory.path().display(),
            primary,
        );
        if let (Some(certificates), Some(tls)) = (certificates, &tls) {
            let file = |name| certificates.file(name).display().to_string();
            text += &format!(
                "tls-port {}\ntls-replication yes\ntls-auth-clients no\ntls-ca-cert-file {}\n\
                 tls-cert-file {}\ntls-key-file {}\n",
                tls.address().port(),
                file("ca.pem"),
                file("server.pem"),
                file("server.key"),
            );
        }
        std::fs::write(&file, text).expect("a file in a directory of our own");
        let mut command = redis_server::program();
        command.arg(&file).arg("--sentinel").current_dir(directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::spawn(&mut command, Some(directory.path())).expect("redis-server starts");
        Self { process, _directory: directory, port, tls }
    }

    fn connection(&self) -> Option<redis::Connection> {
        let client = redis::Client::open(format!("redis://{}/", self.port.address())).ok()?;
        let connection = client.get_connection_with_timeout(START_WITHIN).ok()?;
        connection.set_read_timeout(Some(START_WITHIN)).ok()?;
        Some(connection)
    }

    fn knows_all(&self) -> bool {
        let fields = || -> Option<std::collections::HashMap<String, String>> {
            let mut command = redis::cmd("SENTINEL");
            command.arg("MASTER").arg(NAME).query(&mut self.connection()?).ok()
        };
        fields().is_some_and(|fields| {
            let is = |name: &str, value: &str| fields.get(name).is_some_and(|found| found == value);
            is("num-other-sentinels", "2") && is("num-slaves", "1") && is("flags", "master")
        })
    }
}
