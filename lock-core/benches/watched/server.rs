//! Starts a server of etcd or ZooKeeper for a bench.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cpu;

/// A server on free ports, which stops when this value is dropped.
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    pub(crate) port: u16,
    pub(crate) url: String,
}

/// The class path of ZooKeeper, in the folders that Debian uses.
const CLASSES: &str = "/etc/zookeeper/conf:/usr/share/java/*";

impl Server {
    /// Starts etcd with automatic compaction of its history.
    pub(crate) fn etcd() -> Self {
        let (dir, port, peer) = (directory(), port(), port());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let mut command = Command::new("etcd");
        command.arg("--data-dir").arg(dir.join("data")).arg("--unsafe-no-fsync");
        command.args(["--listen-client-urls", &url(port), "--advertise-client-urls", &url(port)]);
        command.args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)]);
        command.args(["--initial-cluster", &format!("default={}", url(peer))]);
        command.args(["--auto-compaction-mode=revision", "--auto-compaction-retention=1000"]);
        Self::start(command, dir, port, format!("etcd://127.0.0.1:{port}"), "etcd-server")
    }

    pub(crate) fn zookeeper() -> Self {
        let (dir, port) = (directory(), port());
        let settings = format!(
            "tickTime=2000\ndataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            dir.display()
        );
        std::fs::write(dir.join("zoo.cfg"), settings).expect("a file");
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-Dzookeeper.forceSync=no", "-cp", CLASSES]);
        command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(dir.join("zoo.cfg"));
        Self::start(
            command,
            dir,
            port,
            format!("zookeeper://127.0.0.1:{port}/?session_timeout=10s"),
            "zookeeper",
        )
    }

    /// Starts the program. If the machine has two cores and `taskset`, the program runs on core 0, and this process on
    /// core 1.
    fn start(mut command: Command, dir: PathBuf, port: u16, url: String, package: &str) -> Self {
        let spawned = command.current_dir(&dir).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = spawned.unwrap_or_else(|_| missing(package));
        // This process has no other threads yet, so all of them inherit the core.
        if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
            pin(child.id(), 0);
            pin(std::process::id(), 1);
        }
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                missing(package)
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // The server listens for some time before it answers requests.
        std::thread::sleep(Duration::from_secs(2));
        Self { child, dir, port, url }
    }

    pub(crate) fn cpu(&self) -> Duration {
        cpu::of(self.child.id()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// Creates a folder, in memory if possible, because the bench does not measure the disk.
fn directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let dir = parent.join(format!("lock-bench-{}-{}", std::process::id(), port()));
    std::fs::create_dir_all(&dir).expect("a temporary folder");
    dir
}

fn missing(package: &str) -> ! {
    eprintln!("the server does not start; if it is not installed: apt-get install -y {package}");
    std::process::exit(1)
}

fn pin(pid: u32, core: u32) {
    let mut command = Command::new("taskset");
    command.args(["-a", "-c", "-p", &core.to_string(), &pid.to_string()]);
    let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
}
