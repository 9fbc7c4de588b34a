//! A Postgres server for the bench.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lock_core::backend::postgres::tokio_postgres::{Client, Config, NoTls, config::SslMode};

use crate::cpu;

/// A server on a free port, which stops when this value is dropped.
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    port: u16,
}

impl Server {
    /// Starts a server. If the machine has two cores and `taskset`, the server runs on core 0, and this process on
    /// core 1.
    pub(crate) fn start() -> Self {
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        let dir = std::env::temp_dir().join(format!("lock-bench-{port}"));
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        if rustix::process::geteuid().is_root() {
            // Postgres refuses to run as root.
            run(Command::new("chown").arg("postgres").arg(&dir));
        }
        let data = dir.join("data");
        run(program("initdb")
            .args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D"])
            .arg(&data));
        let child = program("postgres")
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"])
            .args(["-c", "max_connections=100", "-k"])
            .arg(&dir)
            .arg("-D")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|_| missing());
        // The server has no child processes yet, and this process has no other threads yet. So all of them inherit the
        // core.
        if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
            pin(child.id(), 0);
            pin(std::process::id(), 1);
        }
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(20));
        }
        // The server listens for some time before it accepts connections.
        std::thread::sleep(Duration::from_secs(1));
        Self { child, dir, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?migrate=true", self.port)
    }

    pub(crate) fn advisory_url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?mode=advisory", self.port)
    }

    pub(crate) async fn connection(&self) -> Client {
        connect(self.port).await
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the CPU time of the server's living processes so far.
    pub(crate) fn cpu(&self) -> Duration {
        let parent = self.child.id();
        let children =
            std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
        ids.filter_map(cpu::of).sum()
    }
}

/// Opens a connection with the driver of the library.
pub(crate) async fn connect(port: u16) -> Client {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("the server listens");
    stream.set_nodelay(true).expect("nodelay");
    let mut config = Config::new();
    config.user("postgres").dbname("postgres").ssl_mode(SslMode::Disable);
    let (client, connection) = config.connect_raw(stream, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

impl Drop for Server {
    fn drop(&mut self) {
        // With this signal, unlike with `KILL`, the server removes its shared memory.
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(id) = id {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::QUIT);
        }
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns a command that runs a program of Postgres, from the folder that Debian uses or from the path. The program
/// does not run as root.
fn program(name: &str) -> Command {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found =
        versions.map(|version| version.path().join("bin").join(name)).filter(|path| path.exists()).max();
    let path = found.unwrap_or_else(|| Path::new(name).to_owned());
    if !rustix::process::geteuid().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(path);
    command
}

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        missing()
    }
}

fn missing() -> ! {
    eprintln!("postgres is not installed: apt-get install -y postgresql");
    std::process::exit(1)
}

fn pin(pid: u32, core: u32) {
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", &core.to_string(), &pid.to_string()]);
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}
