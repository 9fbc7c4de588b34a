//! Starts a redis-server for the benches, measures rounds, and prints medians.
#![allow(dead_code, reason = "each bench uses its part")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]
#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

pub(crate) mod cpu;
mod gathered;

use std::future::Future;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use gathered::Gathered;
use redis::aio::MultiplexedConnection;

/// A redis-server on a free port, without persistence. The server stops when this value is dropped.
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    pub(crate) port: u16,
    /// Whether clients connect through the socket in `dir` instead of over TCP.
    unix: bool,
}

impl Server {
    /// Starts a server. If the machine has two cores and `taskset`, the server runs on core 0, and this process on
    /// core 1.
    pub(crate) fn start() -> Self {
        Self::start_over(false)
    }

    /// Starts a server like [`start`](Self::start). If `unix` is true, clients connect over a Unix socket.
    pub(crate) fn start_over(unix: bool) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let dir = std::env::temp_dir().join(format!("lock-bench-{port}"));
        std::fs::create_dir_all(&dir).expect("a temporary folder");
        let child =
            Command::new(std::env::var_os("LOCK_REDIS_SERVER").unwrap_or_else(|| "redis-server".into()))
                .args([
                    "--port",
                    &port.to_string(),
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                ])
                .arg("--dir")
                .arg(&dir)
                .arg("--unixsocket")
                .arg(dir.join("socket"))
                .stdout(Stdio::null())
                .spawn();
        let Ok(child) = child else {
            eprintln!("redis-server is not installed: apt-get install -y redis-server");
            std::process::exit(1);
        };
        // The number of cores is read once, because a pinned process sees only one core.
        static PINS: OnceLock<bool> = OnceLock::new();
        if *PINS.get_or_init(|| std::thread::available_parallelism().is_ok_and(|n| n.get() > 1)) {
            pin(child.id(), 0);
            pin(std::process::id(), 1);
        }
        let server = Self { child, dir, port, unix };
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// Suspends the server's process. Its connections stay open and get no answer. Dropping this value still ends the
    /// process.
    pub(crate) fn stop(&self) {
        let stopped = Command::new("kill").args(["-STOP", &self.child.id().to_string()]).status();
        assert!(stopped.is_ok_and(|status| status.success()), "cannot stop redis-server");
    }

    pub(crate) fn url(&self) -> String {
        match self.unix {
            true => format!("unix://{}", self.dir.join("socket").display()),
            false => format!("redis://127.0.0.1:{}/", self.port),
        }
    }

    /// Opens a plain connection with the driver of the library. Each command is sent in its own packet.
    pub(crate) async fn connection(&self) -> MultiplexedConnection {
        self.connection_over(Sends::EachAlone).await
    }

    /// Opens a plain connection with the driver of the library.
    pub(crate) async fn connection_over(&self, sends: Sends) -> MultiplexedConnection {
        if self.unix {
            return hello(tokio::net::UnixStream::connect(self.dir.join("socket")).await.expect("connects"))
                .await;
        }
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.expect("connects");
        stream.set_nodelay(sends != Sends::Nagle).expect("nodelay");
        match sends {
            Sends::Gathered => hello(Gathered::new(stream)).await,
            Sends::EachAlone | Sends::Nagle => hello(stream).await,
        }
    }

    /// Returns the CPU time of the server so far.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        cpu::of(self.child.id())
    }

    /// Returns the answer to `INFO commandstats`.
    pub(crate) async fn command_stats(&self) -> String {
        let mut connection = self.connection().await;
        redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.expect("INFO")
    }

    /// Returns how many keys match `pattern`.
    pub(crate) async fn keys(&self, pattern: &str) -> usize {
        let mut connection = self.connection().await;
        let keys: Vec<String> =
            redis::cmd("KEYS").arg(pattern).query_async(&mut connection).await.expect("KEYS");
        keys.len()
    }

    /// Returns the number of lock commands that the server has executed so far. A script counts as one command, and
    /// each `SET` inside it counts too.
    pub(crate) async fn commands(&self) -> u64 {
        let info = self.command_stats().await;
        ["set", "evalsha", "script|load", "time"]
            .iter()
            .filter_map(|name| {
                let line =
                    info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls=")))?;
                line.split(',').next()?.parse::<u64>().ok()
            })
            .sum()
    }
}

/// How a plain connection sends the commands of many tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sends {
    /// `TCP_NODELAY` is set, which is the default of the driver: each command takes one system call and one packet.
    EachAlone,
    /// `TCP_NODELAY` is not set: the kernel delays a small packet until the previous packet is acknowledged. On a
    /// network with delayed acknowledgements this can cost 40 ms.
    Nagle,
    /// `TCP_NODELAY` is set, and one system call sends the commands of all ready tasks.
    Gathered,
}

async fn hello<S>(stream: S) -> MultiplexedConnection
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let info = redis::RedisConnectionInfo::default().set_protocol(redis::ProtocolVersion::RESP3);
    // There is no timeout, so that a busy machine causes no failure.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&info, stream, config).await.expect("says hello");
    tokio::spawn(driver);
    connection
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn pin(pid: u32, core: u32) {
    let _ = Command::new("taskset")
        .args(["-a", "-c", "-p", &core.to_string(), &pid.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Returns the cycles per second of `tasks` tasks, each of which repeats `cycle` for `window`.
pub(crate) async fn throughput<F, Fut>(tasks: usize, window: Duration, cycle: F) -> f64
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let (cycle, stop, count) = (cycle.clone(), Arc::clone(&stop), Arc::clone(&count));
            tokio::spawn(async move {
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    cycle(task).await;
                    done += 1;
                }
                count.fetch_add(done, Ordering::Relaxed);
            })
        })
        .collect();
    tokio::time::sleep(window).await;
    stop.store(true, Ordering::Relaxed);
    for task in running {
        task.await.expect("a cycle does not panic");
    }
    #[allow(clippy::cast_precision_loss, reason = "a count of cycles")]
    let done = count.load(Ordering::Relaxed) as f64;
    done / start.elapsed().as_secs_f64()
}

/// The result of one round of [`throughput`], with the CPU time for each cycle.
pub(crate) struct Round {
    pub(crate) rate: f64,
    pub(crate) client: Option<Duration>,
    pub(crate) server: Option<Duration>,
}

/// Measures one round of [`throughput`], with the CPU time of this process and of the server, if there is one.
pub(crate) async fn round<F, Fut>(tasks: usize, window: Duration, server: Option<&Server>, cycle: F) -> Round
where
    F: Fn(usize) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let times = || (Some(cpu::own()), server.and_then(Server::cpu));
    let (client, server) = times();
    let rate = throughput(tasks, window, cycle).await;
    let (client_after, server_after) = times();
    let each = |before: Option<Duration>, after: Option<Duration>| {
        Some(after?.saturating_sub(before?).div_f64(rate * window.as_secs_f64()))
    };
    Round { rate, client: each(client, client_after), server: each(server, server_after) }
}

/// Prints the output of [`row`], and the medians of the CPU times.
pub(crate) fn rounds(name: &str, rounds: &[Round], base: &[Round]) {
    let rates = |rounds: &[Round]| rounds.iter().map(|round| round.rate).collect::<Vec<_>>();
    row(name, &rates(rounds), &rates(base));
    let client: fn(&Round) -> _ = |round| round.client;
    let server: fn(&Round) -> _ = |round| round.server;
    for (whose, time) in [("client", client), ("server", server)] {
        if let (Some(nanos), Some(base)) = (median_of(rounds, time), median_of(base, time)) {
            println!("  {:<28} {nanos:>12.0} ns  {:>5.2} x", format!("  CPU of the {whose}"), nanos / base);
        }
    }
}

/// Returns the median of the times of `rounds` in ns, or `None` if a round has no time.
pub(crate) fn median_of(rounds: &[Round], time: impl Fn(&Round) -> Option<Duration>) -> Option<f64> {
    let nanos = rounds.iter().map(|round| Some(time(round)?.as_secs_f64() * 1e9)).collect::<Option<_>>()?;
    Some(median(nanos))
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints the median of `values`, and the median of the ratios of each value to the value of the same round in `base`.
pub(crate) fn row(name: &str, values: &[f64], base: &[f64]) {
    let ratios: Vec<_> = values.iter().zip(base).map(|(value, base)| value / base).collect();
    let (low, high) = ratios.iter().fold((f64::MAX, f64::MIN), |(low, high), r| (low.min(*r), high.max(*r)));
    println!(
        "  {name:<28} {:>12.0}/s   {:>5.2} x   ({low:.2} to {high:.2})",
        median(values.to_vec()),
        median(ratios)
    );
}
