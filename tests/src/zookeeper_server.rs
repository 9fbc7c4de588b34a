//! ZooKeeper servers that a test owns.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::certificates::Certificates;
use crate::directory::Directory;
use crate::port::Port;
use crate::process::Process;
use crate::starts::start_in_turn;
use crate::wait::{Bound, START_WITHIN};
use crate::zookeeper_security::Security;

const INSTALL: &str = "ZooKeeper is not installed; run: apt-get install -y zookeeper";
/// ZooKeeper's archive in Debian.
const JAR: &str = "/usr/share/java/zookeeper.jar";
/// The additional archives of a server with TLS. Debian installs them with ZooKeeper.
const NETTY: &str = "/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar";
/// The variable that names another class path.
const VARIABLE: &str = "LOCK_ZOOKEEPER_JAR";
/// The longest time until a server answers a status request.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The longest time that an elected leader waits for its followers, and a follower for its leader, before they elect
/// again. It must be far shorter than the time in which a test expects a lock after the death of a leader.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(10);
/// The answer to a request that only a member of an ensemble can serve.
const NOT_SERVING: &str = "not currently serving requests";

/// ZooKeeper servers as child processes on free ports of 127.0.0.1: a single server, or an ensemble. The servers do not
/// sync to the disk, but their data survive a restart.
///
/// All methods block the calling thread. A start takes about a second. Dropping the value kills the servers, including
/// stopped ones, and removes their directories.
#[derive(Debug)]
pub struct ZooKeeperServers {
    members: Vec<Member>,
    properties: Vec<String>,
    security: Security,
}

#[derive(Debug)]
struct Member {
    // The fields are dropped in this order: the process before its working directory and its ports.
    process: Process,
    directory: Directory,
    client: Port,
    /// The port for TLS.
    secure: Port,
    _peers: [Port; 2],
}

/// The settings with which [`ZooKeeperServers`] are started.
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `start`"]
pub struct ZooKeeperBuilder {
    members: usize,
    tick: Duration,
    settings: String,
    /// Properties of the Java virtual machine.
    properties: Vec<String>,
    security: Security,
}

impl Default for ZooKeeperBuilder {
    fn default() -> Self {
        Self {
            members: 1,
            tick: Duration::from_millis(500),
            settings: String::new(),
            properties: Vec::new(),
            security: Security::default(),
        }
    }
}

impl ZooKeeperBuilder {
    /// Sets the number of servers. The default is 1.
    pub fn members(mut self, members: usize) -> Self {
        self.members = members;
        self
    }

    /// Sets the tick, which is 500 ms by default. A session times out after 2 to 20 ticks.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Adds a line to the configuration file.
    pub fn setting(mut self, line: &str) -> Self {
        let _ = writeln!(self.settings, "{line}");
        self
    }

    /// Sets a property of the Java virtual machine: `name=value`.
    pub fn property(mut self, property: &str) -> Self {
        self.properties.push(format!("-D{property}"));
        self
    }

    /// Adds a TLS port. Clients must show a certificate there if `both_sides` is true.
    pub fn tls(mut self, certificates: &Certificates, both_sides: bool) -> Self {
        self.security.set_tls(certificates, both_sides);
        self
    }

    /// Sets up SASL with DIGEST-MD5, for users with passwords.
    pub fn users(mut self, users: &[(&str, &str)]) -> Self {
        self.security.set_users(users);
        self.property(Security::PROPERTY)
    }

    /// Starts the servers, and returns when they serve clients.
    ///
    /// # Panics
    /// When ZooKeeper is not installed (the text says how to install it) or does not start.
    #[must_use]
    pub fn start(self) -> ZooKeeperServers {
        start_in_turn(|| self.begin())
    }

    fn begin(self) -> ZooKeeperServers {
        let peers: Vec<[Port; 2]> = (0..self.members).map(|_| [Port::reserve(), Port::reserve()]).collect();
        let mut ensemble = String::new();
        if self.members > 1 {
            for (number, [quorum, election]) in peers.iter().enumerate() {
                let [quorum, election] = [quorum, election].map(|port| port.address().port());
                let _ = writeln!(ensemble, "server.{}=127.0.0.1:{quorum}:{election}", number + 1);
            }
        }
        let members = peers
            .into_iter()
            .enumerate()
            .map(|(number, peers)| self.member(number + 1, &ensemble, peers))
            .collect();
        let servers = ZooKeeperServers { members, properties: self.properties, security: self.security };
        (0..servers.members.len()).for_each(|member| servers.wait_ready(member));
        servers
    }

    fn member(&self, id: usize, ensemble: &str, peers: [Port; 2]) -> Member {
        let (directory, client, secure) = (Directory::new(), Port::reserve(), Port::reserve());
        let data = directory.path().join("data");
        std::fs::create_dir(&data).expect("a directory for the data");
        std::fs::write(data.join("myid"), format!("{id}\n")).expect("cannot write the id");
        let config = format!(
            "tickTime={}\ninitLimit={}\nsyncLimit=5\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n{ensemble}{}{}",
            self.tick.as_millis(),
            (FOLLOWED_WITHIN.as_millis() / self.tick.as_millis()).max(1),
            data.display(),
            client.address().port(),
            self.security.settings(directory.path(), secure.address().port()),
            self.settings,
        );
        self.security.write(directory.path());
        std::fs::write(directory.path().join("zoo.cfg"), config).expect("cannot write the configuration");
        let process = spawn(directory.path(), &self.properties);
        Member { process, directory, client, secure, _peers: peers }
    }
}

impl ZooKeeperServers {
    /// Starts one server.
    ///
    /// # Panics
    /// When the conditions of [`ZooKeeperBuilder::start`] apply.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Returns a builder.
    pub fn builder() -> ZooKeeperBuilder {
        ZooKeeperBuilder::default()
    }

    /// Returns `host:port,host:port`.
    #[must_use]
    pub fn hosts(&self) -> String {
        let host = |member: &Member| member.client.address().to_string();
        self.members.iter().map(host).collect::<Vec<_>>().join(",")
    }

    /// Returns `zookeeper://<hosts>/<path>`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("zookeeper://{}/{path}", self.hosts())
    }

    /// Returns `zookeepers://<host>:port,<host>:port/<path>` with the TLS ports.
    #[must_use]
    pub fn secure_url(&self, host: &str, path: &str) -> String {
        let host = |member: &Member| format!("{host}:{}", member.secure.address().port());
        format!("zookeepers://{}/{path}", self.members.iter().map(host).collect::<Vec<_>>().join(","))
    }

    /// Sets other certificates, which the servers use after a [`restart`](Self::restart).
    pub fn replace_certificates(&mut self, certificates: &Certificates) {
        self.security.set_tls(certificates, false);
        self.members.iter().for_each(|member| self.security.write(member.directory.path()));
    }

    /// Sets other SASL users, which the servers use after a [`restart`](Self::restart).
    pub fn replace_users(&mut self, users: &[(&str, &str)]) {
        self.security.set_users(users);
        self.members.iter().for_each(|member| self.security.write(member.directory.path()));
    }

    /// Returns the address of one server.
    #[must_use]
    pub fn address(&self, member: usize) -> std::net::SocketAddr {
        self.members[member].client.address()
    }

    /// Returns the leader, or `None` while there is none. A single server is its own leader.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        (0..self.members.len()).find(|member| {
            self.ask(*member, "srvr")
                .is_some_and(|answer| answer.contains("Mode: leader") || answer.contains("Mode: standalone"))
        })
    }

    /// Kills a server with SIGKILL, and returns when it has ended.
    pub fn kill9(&mut self, member: usize) {
        self.members[member].process.kill9();
    }

    /// Restarts a server on the same port with its data. Kills the server first if it runs. Returns when the process
    /// has started. See [`wait_ready`](Self::wait_ready).
    pub fn restart(&mut self, member: usize) {
        let member = &mut self.members[member];
        member.process.kill9();
        member.process = spawn(member.directory.path(), &self.properties);
    }

    /// Stops a server with SIGSTOP.
    pub fn stop(&self, member: usize) {
        self.members[member].process.stop();
    }

    /// Continues a server after [`stop`](Self::stop).
    pub fn cont(&self, member: usize) {
        self.members[member].process.cont();
    }

    /// Waits until a server serves clients.
    ///
    /// # Panics
    /// When the server does not serve clients in time. The text contains its log.
    pub fn wait_ready(&self, member: usize) {
        let bound = Bound::new(START_WITHIN);
        let serves = || self.ask(member, "srvr").is_some_and(|answer| answer.contains("Mode: "));
        // The TLS port is the last port that a server opens.
        let secure = self.members[member].secure.address();
        let is_open = || TcpStream::connect_timeout(&secure, ANSWER_WITHIN).is_ok();
        while !serves() || self.security.has_tls() && !is_open() {
            if bound.elapsed() >= START_WITHIN {
                let log = std::fs::read_to_string(self.members[member].directory.path().join("log"));
                panic!("ZooKeeper does not start:\n{}", log.unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the number of ephemeral nodes below `path`, as reported by the first server.
    ///
    /// # Panics
    /// When the server does not report them.
    #[must_use]
    pub fn nodes(&self, path: &str) -> usize {
        self.names(path).len()
    }

    /// Returns the names of the ephemeral nodes below `path`, as reported by the first server.
    ///
    /// # Panics
    /// When the server does not report them.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let beginning = format!("/{path}/");
        let dump = self.answer("dump");
        dump.lines().filter_map(|line| line.trim().strip_prefix(&beginning)).map(str::to_owned).collect()
    }

    /// Returns the number of requests that the first server has received.
    ///
    /// # Panics
    /// When the server does not report it.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let answer = self.answer("srvr");
        let count = answer.lines().find_map(|line| line.strip_prefix("Received: ")?.parse().ok());
        count.expect("the server tells how much it received")
    }

    /// Returns the watched paths of the first server, each with the number of its watches.
    ///
    /// # Panics
    /// When the server does not report them.
    #[must_use]
    pub fn watches_by_path(&self) -> Vec<(String, usize)> {
        let mut paths: Vec<(String, usize)> = Vec::new();
        // A path is followed by a line for each session that watches it.
        for line in self.answer("wchp").lines() {
            match (line.strip_prefix('/'), paths.last_mut()) {
                (Some(path), _) => paths.push((path.to_owned(), 0)),
                (None, Some((_, watchers))) if line.trim().starts_with("0x") => *watchers += 1,
                (None, _) => {}
            }
        }
        paths
    }

    /// Returns the number of watches at the first server.
    ///
    /// # Panics
    /// When the server does not report it.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.watches_by_path().iter().map(|(_, watchers)| watchers).sum()
    }

    /// Sends one of the four-letter commands to the first server until it answers. On a busy machine the answer may
    /// take longer than the timeout of one request, and a missing answer must not be confused with an empty one.
    fn answer(&self, word: &str) -> String {
        let bound = Bound::new(START_WITHIN);
        loop {
            let answer = self.ask(0, word);
            let says = |answer: &String| !answer.is_empty() && !answer.contains(NOT_SERVING);
            if let Some(answer) = answer.filter(says) {
                return answer;
            }
            bound.check(&format!("the first server answers `{word}`"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends one of the four-letter commands to a server. Returns `None` if the server does not answer.
    #[must_use]
    pub fn ask(&self, member: usize, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address(member), ANSWER_WITHIN).ok()?;
        stream.set_read_timeout(Some(ANSWER_WITHIN)).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

fn spawn(directory: &Path, properties: &[String]) -> Process {
    let jar = std::env::var(VARIABLE).unwrap_or_else(|_| {
        assert!(Path::new(JAR).exists(), "{INSTALL}");
        JAR.to_owned()
    });
    let log =
        std::fs::File::options().create(true).append(true).open(directory.join("log")).expect("a log file");
    let mut command = Command::new("java");
    command
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"])
        .args(["-Dzookeeper.forceSync=no", "-Dzookeeper.jmx.log4j.disable=true"])
        .args(properties)
        .args(["-cp", &format!("{}:{jar}:{NETTY}", directory.display())])
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(directory.join("zoo.cfg"))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log file"))
        .stderr(log);
    match Process::spawn(&mut command, Some(directory)) {
        Ok(process) => process,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => panic!("{INSTALL}"),
        Err(error) => panic!("cannot start java: {error}"),
    }
}
