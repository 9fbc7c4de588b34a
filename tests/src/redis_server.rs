//! A Redis server that a test owns.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::Value;

use crate::certificates::Certificates;
use crate::clock::Clock;
use crate::directory::Directory;
use crate::port::Port;
use crate::process::Process;
use crate::recorder::Recorder;
use crate::wait::{Bound, START_WITHIN};

const INSTALL: &str = "redis-server is not installed; run: apt-get install -y redis-server";
/// The variable that names a server other than the `redis-server` on the path: another version, or Valkey.
const VARIABLE: &str = "LOCK_REDIS_SERVER";

/// The time for which [`RedisServer::command`] waits for an answer. With this limit, a stopped server causes a panic
/// instead of a hang.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A `redis-server` child process on a free port of 127.0.0.1, without data on the disk.
///
/// All methods block the calling thread. A local command takes a fraction of a millisecond, and a start takes about 20
/// ms. Dropping the value kills the server, even a stopped one, and removes its directory.
#[derive(Debug)]
pub struct RedisServer {
    // The fields are dropped in this order: the process before its working directory and its port.
    process: Process,
    builder: RedisBuilder,
    directory: Directory,
    port: Port,
}

/// The settings with which a [`RedisServer`] is started.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing runs before `start`"]
pub struct RedisBuilder {
    arguments: Vec<String>,
    /// Variables in the environment of the server, in addition to those of the test.
    environment: Vec<(String, std::ffi::OsString)>,
    /// The clock must live as long as the server.
    clock: Option<Arc<Clock>>,
    password: Option<String>,
    /// The port for TLS, in addition to the plain one.
    tls: Option<Arc<Port>>,
    /// Whether the directory of the server is in memory.
    in_memory: bool,
}

impl RedisBuilder {
    /// Adds an option of the configuration file, such as `("maxmemory", "3mb")`.
    pub fn config(self, name: &str, value: &str) -> Self {
        self.configs(name, &[value])
    }

    /// Adds an option with several values. Before version 7, each value must be a separate argument. Otherwise like
    /// [`config`](Self::config).
    pub fn configs(mut self, name: &str, values: &[&str]) -> Self {
        self.arguments.push(format!("--{name}"));
        self.arguments.extend(values.iter().map(|value| (*value).to_owned()));
        self
    }

    /// Makes `clock` the wall clock of the server.
    pub fn clock(mut self, clock: &Arc<Clock>) -> Self {
        self.environment = clock.environment();
        self.clock = Some(Arc::clone(clock));
        self
    }

    /// Requires `password` from every client. [`RedisServer::url`] contains it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.config("requirepass", password)
    }

    /// Also listens for TLS on a second port, see [`RedisServer::tls_port`]. Clients must show a certificate there if
    /// `both_sides` is true.
    pub fn tls(mut self, certificates: &Certificates, both_sides: bool) -> Self {
        let port = Port::reserve();
        let file = |name| certificates.file(name).display().to_string();
        self = self
            .config("tls-port", &port.address().port().to_string())
            .config("tls-ca-cert-file", &file("ca.pem"))
            .config("tls-cert-file", &file("server.pem"))
            .config("tls-key-file", &file("server.key"))
            .config("tls-auth-clients", if both_sides { "yes" } else { "no" });
        self.tls = Some(Arc::new(port));
        self
    }

    /// Places the directory of the server in memory, for a server that does nothing else while it writes to the disk.
    pub(crate) fn in_memory(mut self) -> Self {
        self.in_memory = true;
        self
    }

    /// Starts the server, and returns when it answers.
    ///
    /// # Panics
    /// When Redis is not installed (the text says how to install it) or does not start.
    #[must_use]
    pub fn start(self) -> RedisServer {
        let directory = if self.in_memory { Directory::in_memory() } else { Directory::new() };
        let port = Port::reserve();
        let process = spawn(&self, &directory, &port);
        let mut server = RedisServer { process, builder: self, directory, port };
        server.wait_ready();
        server
    }
}

/// The commands that a lock may need. The library sends each of them once to check the rights of its user.
pub const CHECKED: [&str; 23] = [
    "evalsha",
    "get",
    "getrange",
    "set",
    "setrange",
    "exists",
    "pttl",
    "pexpire",
    "del",
    "hget",
    "hset",
    "hdel",
    "hexists",
    "hlen",
    "hgetall",
    "zadd",
    "zrem",
    "zremrangebyscore",
    "zscore",
    "zcard",
    "zrank",
    "zrange",
    "zrevrange",
];

impl RedisServer {
    /// Starts a server without password.
    ///
    /// # Panics
    /// When the conditions of [`RedisBuilder::start`] apply.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Returns a builder for a server.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::default()
    }

    /// Returns `redis://127.0.0.1:<port>/`, with the password if there is one.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(self.port())
    }

    /// Returns the URL of the same server on another port of 127.0.0.1.
    pub(crate) fn url_at(&self, port: u16) -> String {
        match &self.builder.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{port}/"),
            None => format!("redis://127.0.0.1:{port}/"),
        }
    }

    /// Returns the URL for a user of the access control list, which `ACL SETUSER` creates.
    #[must_use]
    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}/", self.port())
    }

    /// Returns the port of 127.0.0.1. It does not change during the life of this value.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.address().port()
    }

    /// Returns the port of 127.0.0.1 for TLS.
    ///
    /// # Panics
    /// When the server was started without TLS.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.builder.tls.as_ref().expect("a server with TLS").address().port()
    }

    /// Returns the port under which the nodes of a Cluster know this server.
    pub(crate) fn cluster_port(&self) -> u16 {
        self.builder.tls.as_ref().map_or(self.port(), |port| port.address().port())
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.port.address()
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.builder.password.as_deref()
    }

    /// Returns the process id of the running server, or of the last one.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the server with SIGKILL, and returns when it has ended. Connections are refused until
    /// [`restart`](Self::restart).
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Restarts the server on the same port, with the same options and without its data. Kills the server first if it
    /// runs.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn restart(&mut self) {
        self.kill9();
        self.process = spawn(&self.builder, &self.directory, &self.port);
        self.wait_ready();
    }

    /// Kills this server, and starts another one on the same port.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn restart_as(&mut self, builder: RedisBuilder) {
        self.builder = builder;
        self.restart();
    }

    /// Stops the process with SIGSTOP. Connections stay open and are accepted, but get no answer.
    ///
    /// # Panics
    /// When the server has ended.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Returns the directory in which the server stores its data. It is kept in a restart.
    #[must_use]
    pub fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Continues the stopped process.
    ///
    /// # Panics
    /// When the server has ended.
    pub fn cont(&self) {
        self.process.cont();
    }

    /// Runs one command on a new connection.
    ///
    /// # Panics
    /// When the server does not answer, or answers with an error; see [`try_command`](Self::try_command).
    #[allow(clippy::must_use_candidate, reason = "most commands are run for what they do")]
    pub fn command(&self, parts: &[&str]) -> Value {
        self.try_command(parts).unwrap_or_else(|error| panic!("redis command {parts:?}: {error}"))
    }

    /// Runs one command on a new connection, and returns its answer or an error.
    ///
    /// # Errors
    /// When the server refuses the command or does not answer.
    pub fn try_command(&self, parts: &[&str]) -> redis::RedisResult<Value> {
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(ANSWER_WITHIN)?;
        connection.set_read_timeout(Some(ANSWER_WITHIN))?;
        let (name, arguments) = parts.split_first().expect("a command has a name");
        redis::cmd(name).arg(arguments).query(&mut connection)
    }

    /// Runs one command and converts its answer, as in `let ttl: i64 = server.get(&["PTTL", "key"])`.
    ///
    /// # Panics
    /// When the conditions of [`command`](Self::command) apply, or the answer has another type.
    #[must_use]
    pub fn get<T: redis::FromRedisValue>(&self, parts: &[&str]) -> T {
        let value = self.command(parts);
        redis::from_redis_value(value).unwrap_or_else(|error| panic!("redis command {parts:?}: {error}"))
    }

    /// Closes the connections of all clients, and returns their number.
    ///
    /// # Panics
    /// When the conditions of [`command`](Self::command) apply.
    #[allow(clippy::must_use_candidate, reason = "mostly called for what it does")]
    pub fn cut_clients(&self) -> usize {
        // The server counts a connection with a subscription as another type, whatever else the connection sends.
        let of = |kind| self.get::<usize>(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
        of("normal") + of("pubsub")
    }

    /// Returns one field of `INFO`, such as `run_id`.
    ///
    /// # Panics
    /// When there is no such field.
    #[must_use]
    pub fn info(&self, field: &str) -> String {
        let text: String = self.get(&["INFO", "everything"]);
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("INFO has no field {field}")).to_owned()
    }

    /// Returns how often each command ran since `CONFIG RESETSTAT`, including runs in scripts, and its total time in
    /// microseconds. Leaves out the commands that connections send on their own, and those that the library sends once
    /// with each connection to check the rights of its user.
    ///
    /// # Panics
    /// When the conditions of [`command`](Self::command) apply.
    #[must_use]
    pub fn command_stats(&self) -> BTreeMap<String, (u64, u64)> {
        const OWN: [&str; 7] = ["ping", "info", "config", "client", "hello", "command", "script"];
        let text: String = self.get(&["INFO", "commandstats"]);
        let stats = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let (calls, rest) = rest.split_once(",usec=")?;
            let own = OWN.contains(&name.split('|').next().unwrap_or(name));
            (!own).then_some((name.to_owned(), (calls.parse().ok()?, rest.split(',').next()?.parse().ok()?)))
        };
        // Only the library sends HELLO, twice with each connection: to authenticate, and to name the connection.
        let dials = text.lines().find_map(|line| line.strip_prefix("cmdstat_hello:calls="));
        let dials = dials.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok()).unwrap_or(0) / 2;
        let of_callers = |(name, (calls, usec)): (String, (u64, u64))| {
            let checks = if CHECKED.contains(&name.as_str()) { dials } else { 0 };
            (calls > checks || checks == 0).then(|| (name, (calls - checks, usec)))
        };
        text.lines().filter_map(stats).filter_map(of_callers).collect()
    }

    /// Returns all keys of the server, sorted.
    ///
    /// # Panics
    /// When the conditions of [`command`](Self::command) apply.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.get(&["KEYS", "*"]);
        keys.sort_unstable();
        keys
    }

    /// Describes a key for the message of a failed test: its type, its time to live in ms, and its value.
    #[must_use]
    pub fn describe(&self, key: &str) -> String {
        let ask = |parts: &[&str]| match self.try_command(parts) {
            Ok(value) => value,
            Err(error) => Value::SimpleString(error.to_string()),
        };
        let kind = ask(&["TYPE", key]);
        let read: &[&str] = match &kind {
            Value::SimpleString(kind) if kind == "string" => &["GET", key],
            Value::SimpleString(kind) if kind == "zset" => &["ZRANGE", key, "0", "-1", "WITHSCORES"],
            Value::SimpleString(kind) if kind == "hash" => &["HGETALL", key],
            _ => &["OBJECT", "ENCODING", key],
        };
        format!("{key}: {kind:?}, PTTL {:?}: {:?}", ask(&["PTTL", key]), ask(read))
    }

    /// Starts to record the commands that clients send.
    ///
    /// # Panics
    /// When the server does not answer.
    #[must_use]
    pub fn record(&self) -> Recorder<'_> {
        Recorder::start(self)
    }

    /// Waits until a PING over TCP is answered by PONG, or by an error that asks for a password.
    fn wait_ready(&mut self) {
        let bound = Bound::new(START_WITHIN);
        bound.block_until("redis-server answers PING", || {
            if let Some(status) = self.process.exited() {
                let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                panic!("redis-server ended at its start ({status}): {log}");
            }
            ping(&self.port)
        });
    }
}

fn ping(port: &Port) -> bool {
    let Ok(mut stream) = TcpStream::connect(port.address()) else { return false };
    let mut answer = [0; 7];
    stream.set_read_timeout(Some(ANSWER_WITHIN)).is_ok()
        && stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && (&answer == b"+PONG\r\n" || &answer == b"-NOAUTH")
}

fn spawn(builder: &RedisBuilder, directory: &Directory, port: &Port) -> Process {
    let mut command = program();
    command.args(["--bind", "127.0.0.1", "--port", &port.address().port().to_string()]);
    command.arg("--dir").arg(directory.path());
    command.args(["--logfile", "log", "--save", "", "--appendonly", "no"]);
    // By default, a primary waits five seconds for more replicas before the first sync.
    command.args(["--repl-diskless-sync-delay", "0"]);
    if major_version() >= 7 {
        command.args(["--enable-debug-command", "yes", "--enable-protected-configs", "yes"]);
    }
    command.args(&builder.arguments);
    command.envs(builder.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Process::spawn(&mut command, Some(directory.path())).unwrap_or_else(|error| panic!("{}", why_not(&error)))
}

/// Returns the program of the server, without arguments.
pub(crate) fn program() -> Command {
    Command::new(std::env::var_os(VARIABLE).unwrap_or_else(|| "redis-server".into()))
}

/// Returns the major version of the server. Versions before 7 allow DEBUG by default.
fn major_version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let output = program().arg("--version").output();
        let output = output.unwrap_or_else(|error| panic!("{}", why_not(&error)));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_once(" v=").and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
        version.unwrap_or_else(|| panic!("redis-server --version says no version: {text}"))
    })
}

fn why_not(error: &std::io::Error) -> String {
    match (error.kind(), std::env::var(VARIABLE)) {
        (_, Ok(path)) => format!("cannot start `{path}`, the server that {VARIABLE} names: {error}"),
        (std::io::ErrorKind::NotFound, _) => INSTALL.to_owned(),
        _ => format!("cannot start redis-server: {error}"),
    }
}
