//! An etcd cluster that a test owns.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::certificates::Certificates;
use crate::directory::Directory;
use crate::peers::{Cut, Peers};
use crate::port::Port;
use crate::process::Process;
use crate::starts::start_in_turn;
use crate::wait::{Bound, START_WITHIN};

const INSTALL: &str = "etcd is not installed; run: apt-get install -y etcd-server etcd-client";

/// The longest time of one request to a member. Most requests are repeated, because a member may be stopped.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// `etcd` child processes on free ports of 127.0.0.1, which form one cluster. The members do not sync to the disk.
///
/// All methods block the calling thread. Dropping the value kills the members, including stopped ones, and removes
/// their directories.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    builder: EtcdBuilder,
    cluster: String,
}

#[derive(Debug)]
struct Member {
    // The fields are dropped in this order: the process before its working directory and its ports.
    process: Process,
    directory: Directory,
    client: Port,
    peer: Port,
    metrics: Port,
    /// The proxy in front of `peer`, if the member can be cut off.
    peers: Option<Peers>,
}

/// The settings with which an [`Etcd`] is started.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing runs before `start`"]
pub struct EtcdBuilder {
    members: usize,
    arguments: Vec<String>,
    partitionable: bool,
    /// The arguments for TLS with clients.
    tls: Vec<String>,
}

impl EtcdBuilder {
    /// Sets the number of members. The default is 1.
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// Adds an argument, such as `--quota-backend-bytes=1000000`.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Puts proxies between the members, so that one of them can be [cut off](Etcd::cut_off).
    pub fn partitionable(mut self) -> Self {
        self.partitionable = true;
        self
    }

    /// Uses TLS with clients. Clients must show a certificate if `both_sides` is true.
    pub fn tls(mut self, certificates: &Certificates, both_sides: bool) -> Self {
        let file = |name| certificates.file(name).display().to_string();
        self.tls =
            vec![format!("--cert-file={}", file("server.pem")), format!("--key-file={}", file("server.key"))];
        if both_sides {
            self.tls
                .extend([format!("--trusted-ca-file={}", file("ca.pem")), "--client-cert-auth".to_owned()]);
        }
        self
    }

    /// Starts the members, and returns when they have a leader.
    ///
    /// # Panics
    /// When etcd is not installed (the text says how to install it) or does not start.
    #[must_use]
    pub fn start(self) -> Etcd {
        start_in_turn(|| self.begin())
    }

    fn begin(self) -> Etcd {
        let count = self.members.max(1);
        let places: Vec<_> = (0..count)
            .map(|_| (Directory::new(), Port::reserve(), Port::reserve(), Port::reserve()))
            .collect();
        let peers =
            places.iter().map(|(_, _, peer, _)| self.partitionable.then(|| Peers::before(peer.address())));
        let peers: Vec<_> = peers.collect();
        let found_at = places
            .iter()
            .zip(&peers)
            .map(|((_, _, peer, _), peers)| peers.as_ref().map_or(peer.address(), Peers::address));
        let cluster: Vec<String> =
            found_at.enumerate().map(|(at, address)| format!("m{at}=http://{address}")).collect();
        let cluster = cluster.join(",");
        let parts = places.into_iter().zip(peers).enumerate();
        let members = parts.map(|(at, ((directory, client, peer, metrics), peers))| {
            let process = spawn(&self, at, &cluster, (&directory, &client, &peer, &metrics));
            Member { process, directory, client, peer, metrics, peers }
        });
        let members = members.collect();
        let mut etcd = Etcd { members, builder: self, cluster };
        etcd.wait_ready();
        etcd
    }
}

impl Etcd {
    /// Starts one member.
    ///
    /// # Panics
    /// When the conditions of [`EtcdBuilder::start`] apply.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Returns a builder.
    pub fn builder() -> EtcdBuilder {
        EtcdBuilder::default()
    }

    /// Returns `etcd://127.0.0.1:<port>,..` with every member.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://{}", self.places(0..self.members.len()))
    }

    /// Returns the URL of a single member.
    #[must_use]
    pub fn url_of(&self, member: usize) -> String {
        format!("etcd://{}", self.places(member..member + 1))
    }

    /// Returns the URL for a user.
    #[must_use]
    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("etcd://{user}:{password}@{}", self.places(0..self.members.len()))
    }

    /// Returns the client port of a member.
    #[must_use]
    pub fn port(&self, member: usize) -> u16 {
        self.members[member].client.address().port()
    }

    /// Returns the address on which a member listens for clients.
    #[must_use]
    pub fn address(&self, member: usize) -> std::net::SocketAddr {
        self.members[member].client.address()
    }

    fn places(&self, range: std::ops::Range<usize>) -> String {
        let places: Vec<_> =
            self.members[range].iter().map(|member| member.client.address().to_string()).collect();
        places.join(",")
    }

    /// Kills a member with SIGKILL, and returns when it has ended.
    pub fn kill9(&mut self, member: usize) {
        self.members[member].process.kill9();
    }

    /// Restarts a member with its data. Kills the member first if it runs. Does not wait until it is ready.
    pub fn restart(&mut self, member: usize) {
        self.kill9(member);
        let place = &self.members[member];
        let parts = (&place.directory, &place.client, &place.peer, &place.metrics);
        self.members[member].process = spawn(&self.builder, member, &self.cluster, parts);
    }

    /// Stops a member with SIGSTOP. Its connections stay open and get no answer.
    ///
    /// # Panics
    /// When the member has ended.
    pub fn stop(&self, member: usize) {
        self.members[member].process.stop();
    }

    /// Continues a stopped member.
    ///
    /// # Panics
    /// When the member has ended.
    pub fn cont(&self, member: usize) {
        self.members[member].process.cont();
    }

    /// Cuts a member off from the others until [`rejoin`](Self::rejoin). Clients still reach the member.
    ///
    /// # Panics
    /// When the cluster is not [`partitionable`](EtcdBuilder::partitionable), or does not answer.
    pub fn cut_off(&self, member: usize) {
        let list = self.ctl(&["member", "list"]);
        let name = format!(", m{member}, ");
        let line = list.lines().find(|line| line.contains(&name)).expect("it is a member");
        let id = line.split(',').next().expect("an id").trim_start_matches('0').to_owned();
        for (at, other) in self.members.iter().enumerate() {
            let peers = other.peers.as_ref().expect("the cluster is partitionable");
            peers.cut(if at == member { Cut::All } else { Cut::From(id.clone()) });
        }
    }

    /// Connects all members with each other again.
    pub fn rejoin(&self) {
        self.members
            .iter()
            .filter_map(|member| member.peers.as_ref())
            .for_each(|peers| peers.cut(Cut::Nobody));
    }

    /// Returns whether every member reaches every other member. For a while after [`rejoin`](Self::rejoin) some do not.
    /// If the next member were cut off then, there would be no majority.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.members.iter().all(|member| {
            let text = get(&member.metrics, "/metrics");
            let reached = text.lines().filter(|line| line.starts_with("etcd_network_active_peers{"));
            let reached = reached.filter(|line| line.ends_with(" 1")).count();
            reached + 1 == self.members.len() && text.lines().any(|line| line == "etcd_server_has_leader 1")
        })
    }

    /// Returns the number of the leader, as reported by the first member that answers and knows the leader.
    ///
    /// # Panics
    /// When there is no leader for a long time.
    #[must_use]
    pub fn leader(&self) -> usize {
        let bound = Bound::new(START_WITHIN);
        loop {
            for member in 0..self.members.len() {
                if self.is_leader(member) {
                    return member;
                }
            }
            bound.check("the cluster has a leader");
            // A member that lists all its metrics works for several milliseconds.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_leader(&self, member: usize) -> bool {
        let text = get(&self.members[member].metrics, "/metrics");
        let is = |name: &str| text.lines().any(|line| line == name);
        is("etcd_server_is_leader 1") && is("etcd_server_has_leader 1")
    }

    /// Returns the value of a metric of the first member.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        let bound = Bound::new(START_WITHIN);
        let mut text = String::new();
        // A missing answer must not be mistaken for a missing metric.
        bound.block_until("the first member tells its metrics", || {
            text = get(&self.members[0].metrics, "/metrics");
            !text.is_empty()
        });
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0.0)
    }

    /// Runs `etcdctl` against all members, and returns its output.
    ///
    /// # Panics
    /// When `etcdctl` is not installed, or fails.
    #[allow(clippy::must_use_candidate, reason = "most commands are run for what they do")]
    pub fn ctl(&self, arguments: &[&str]) -> String {
        run(&self.places(0..self.members.len()), arguments)
    }

    /// Runs `etcdctl` for a command that may be refused. Otherwise like [`ctl`](Self::ctl).
    ///
    /// # Errors
    /// The output of `etcdctl`.
    pub fn try_ctl(&self, arguments: &[&str]) -> Result<String, String> {
        try_run(&self.places(0..self.members.len()), arguments)
    }

    /// Runs `etcdctl` against one member, and returns its output.
    ///
    /// # Panics
    /// When the conditions of [`ctl`](Self::ctl) apply.
    #[must_use]
    pub fn ctl_of(&self, member: usize, arguments: &[&str]) -> String {
        run(&self.places(member..member + 1), arguments)
    }

    /// Runs `etcdctl` for a command that may be refused. Otherwise like [`ctl_of`](Self::ctl_of).
    ///
    /// # Errors
    /// The output of `etcdctl`.
    pub fn try_ctl_of(&self, member: usize, arguments: &[&str]) -> Result<String, String> {
        try_run(&self.places(member..member + 1), arguments)
    }

    /// Executes requests of `etcdctl`, one on each line, in one transaction.
    ///
    /// # Panics
    /// When `etcdctl` does not run.
    pub fn transact(&self, requests: &str) {
        let mut command = ctl(&self.places(0..self.members.len()), &["txn"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{INSTALL} ({error})"));
        let mut asked = child.stdin.take().expect("a pipe");
        // The transaction has no condition, these requests, and no requests for an unmet condition.
        write!(asked, "\n{requests}\n\n\n").expect("it reads");
        drop(asked);
        assert!(child.wait().expect("it ends").success(), "refused: {requests}");
    }

    /// Starts `etcdctl` against all members as a process that keeps running. It is killed on drop.
    ///
    /// # Panics
    /// When `etcdctl` is not installed.
    #[must_use]
    pub fn ctl_running(&self, arguments: &[&str]) -> Process {
        let mut command = ctl(&self.places(0..self.members.len()), arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Process::spawn(&mut command, None).unwrap_or_else(|error| panic!("{INSTALL} ({error})"))
    }

    /// Starts `etcd grpc-proxy` in front of the first member.
    ///
    /// # Panics
    /// When etcd is not installed.
    #[must_use]
    pub fn grpc_proxy(&self) -> GrpcProxy {
        let (port, directory) = (Port::reserve(), Directory::new());
        let mut command = Command::new("etcd");
        command.args(["grpc-proxy", "start"]).arg(format!("--endpoints={}", self.address(0)));
        command.arg(format!("--listen-addr={}", port.address()));
        command.arg(format!("--advertise-client-url={}", port.address()));
        command.arg("--data-dir").arg(directory.path().join("data"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let spawned = Process::spawn(&mut command, Some(directory.path()));
        let process = spawned.unwrap_or_else(|error| panic!("{INSTALL} ({error})"));
        Bound::new(START_WITHIN)
            .block_until("the proxy listens", || TcpStream::connect(port.address()).is_ok());
        GrpcProxy { _process: process, _directory: directory, port }
    }

    /// Returns all stored keys, sorted.
    ///
    /// # Panics
    /// When the conditions of [`ctl`](Self::ctl) apply.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let text = self.ctl(&["get", "", "--prefix", "--keys-only"]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the number of leases.
    ///
    /// # Panics
    /// When the conditions of [`ctl`](Self::ctl) apply.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.lease_ids().len()
    }

    /// Returns the ids of all leases, in hex.
    ///
    /// # Panics
    /// When the conditions of [`ctl`](Self::ctl) apply.
    #[must_use]
    pub fn lease_ids(&self) -> Vec<String> {
        // The first line is the number of leases.
        self.ctl(&["lease", "list"]).lines().skip(1).map(str::to_owned).collect()
    }

    fn wait_ready(&mut self) {
        let bound = Bound::new(START_WITHIN);
        for member in 0..self.members.len() {
            bound.block_until("etcd is healthy", || {
                if let Some(status) = self.members[member].process.exited() {
                    let log = self.members[member].directory.path().join("log");
                    let log = std::fs::read_to_string(log).unwrap_or_default();
                    panic!("etcd ended at its start ({status}): {log}");
                }
                get(&self.members[member].metrics, "/health").contains("\"true\"")
            });
        }
    }
}

/// A proxy of etcd in front of a member. It ends on drop.
#[derive(Debug)]
pub struct GrpcProxy {
    _process: Process,
    _directory: Directory,
    port: Port,
}

impl GrpcProxy {
    /// Returns the URL of the cluster through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://{}", self.port.address())
    }
}

/// Sends an HTTP request to a member, and returns its answer, or an empty text if there is none.
fn get(port: &Port, path: &str) -> String {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(port.address())?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().unwrap_or_default()
}

fn spawn(
    builder: &EtcdBuilder,
    at: usize,
    cluster: &str,
    (directory, client, peer, metrics): (&Directory, &Port, &Port, &Port),
) -> Process {
    let scheme = if builder.tls.is_empty() { "http" } else { "https" };
    let log = std::fs::File::create(directory.path().join("log")).expect("a log in a directory of its own");
    let mut command = Command::new("etcd");
    command.arg(format!("--name=m{at}")).arg("--data-dir").arg(directory.path().join("data"));
    command.arg(format!("--listen-client-urls={scheme}://{}", client.address()));
    command.arg(format!("--advertise-client-urls={scheme}://{}", client.address()));
    command.arg(format!("--listen-peer-urls=http://{}", peer.address()));
    let own = cluster.split(',').nth(at).and_then(|own| own.split_once('='));
    command.arg(format!("--initial-advertise-peer-urls={}", own.expect("BUG: every member is in it").1));
    command.arg(format!("--listen-metrics-urls=http://{}", metrics.address()));
    command.arg(format!("--initial-cluster={cluster}")).args(["--logger=zap", "--log-level=error"]);
    // The data survives the death of processes, but not of the machine.
    command.arg("--unsafe-no-fsync").args(&builder.tls).args(&builder.arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let spawned = Process::spawn(&mut command, Some(directory.path()));
    spawned.unwrap_or_else(|error| panic!("{INSTALL} ({error})"))
}

fn ctl(places: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3").arg("--endpoints").arg(places);
    // By default `etcdctl` gives up after 2 s without a connection, and after 5 s without an answer.
    command.args(["--dial-timeout=30s", "--command-timeout=60s"]).args(arguments);
    command
}

fn run(places: &str, arguments: &[&str]) -> String {
    try_run(places, arguments).unwrap_or_else(|text| panic!("etcdctl {arguments:?}: {text}"))
}

fn try_run(places: &str, arguments: &[&str]) -> Result<String, String> {
    let output = ctl(places, arguments).output().unwrap_or_else(|error| panic!("{INSTALL} ({error})"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(text + &String::from_utf8_lossy(&output.stderr)) }
}
