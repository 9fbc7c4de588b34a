//! A Postgres server that a test owns.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::Certificates;
use crate::clock::Clock;
use crate::directory::Directory;
use crate::port::Port;
use crate::process::Process;
use crate::starts::start_in_turn;
use crate::wait::{Bound, START_WITHIN};

const INSTALL: &str = "postgres is not installed; run: apt-get install -y postgresql";
/// The variable that names the folder with the programs of another version.
const VARIABLE: &str = "LOCK_POSTGRES_BIN";

/// A `postgres` child process on a free port of 127.0.0.1, with its data in a temporary directory.
///
/// All methods block the calling thread. A statement takes about 20 ms, and a start takes half a second. Dropping the
/// value ends the server, even a stopped one, and removes its directory.
#[derive(Debug)]
pub struct PostgresServer {
    // The fields are dropped in this order: the process before its working directory and its port.
    process: Process,
    settings: Vec<String>,
    environment: Vec<(String, OsString)>,
    directory: Directory,
    port: Port,
}

impl PostgresServer {
    /// Starts a server that trusts every user. `postgres` is its administrator.
    ///
    /// # Panics
    /// When Postgres is not installed (the text says how to install it) or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with settings such as `max_connections=5`. Otherwise like [`start`](Self::start).
    ///
    /// # Panics
    /// When the conditions of [`start`](Self::start) apply.
    #[must_use]
    pub fn with(settings: &[&str]) -> Self {
        Self::begin(settings, &[], |_| {})
    }

    /// Starts a server whose wall clock `clock` sets. Otherwise like [`with`](Self::with). The clock must live as long
    /// as the server.
    ///
    /// # Panics
    /// When the conditions of [`start`](Self::start) apply.
    #[must_use]
    pub fn with_clock(settings: &[&str], clock: &Clock) -> Self {
        give_away(clock.directory());
        Self::begin(settings, &clock.environment(), |_| {})
    }

    /// Starts a server with TLS. Otherwise like [`start`](Self::start).
    ///
    /// # Panics
    /// When the conditions of [`start`](Self::start) apply.
    #[must_use]
    pub fn with_tls(certificates: &Certificates) -> Self {
        let settings =
            ["ssl=on", "ssl_cert_file=server.pem", "ssl_key_file=server.key", "ssl_ca_file=ca.pem"];
        Self::begin(&settings, &[], |data| {
            for name in ["server.pem", "server.key", "ca.pem"] {
                std::fs::copy(certificates.file(name), data.join(name)).expect("a certificate can be copied");
                let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
                std::fs::set_permissions(data.join(name), private).expect("the file is ours");
            }
        })
    }

    /// Starts a standby of `primary`, which replicates asynchronously.
    ///
    /// # Panics
    /// When the conditions of [`start`](Self::start) apply.
    #[must_use]
    pub fn standby_of(primary: &Self) -> Self {
        let directory = Directory::new();
        give_away(directory.path());
        let port = primary.address().port().to_string();
        let made = unprivileged_program("pg_basebackup")
            .args([
                "-h",
                "127.0.0.1",
                "-U",
                "postgres",
                "-R",
                "--checkpoint=fast",
                "--no-sync",
                "-p",
                &port,
                "-D",
            ])
            .arg(directory.path().join("data"))
            .current_dir(directory.path())
            .output();
        let made = made.unwrap_or_else(|error| panic!("{}", why_not(&error)));
        assert!(made.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&made.stderr));
        Self::run(&[], &[], directory)
    }

    /// Ends the replication to this standby. It does not receive later commits of the primary.
    pub fn detach(&self) {
        self.sql("ALTER SYSTEM SET primary_conninfo = ''");
        self.sql("SELECT pg_reload_conf()");
        Bound::new(START_WITHIN).block_until("the standby is on its own", || {
            self.sql("SELECT count(*) FROM pg_stat_wal_receiver") == "0"
        });
    }

    /// Makes this standby a primary.
    pub fn promote(&self) {
        assert_eq!(self.sql("SELECT pg_promote()"), "t", "it is promoted");
    }

    fn begin(settings: &[&str], environment: &[(String, OsString)], prepare: impl FnOnce(&Path)) -> Self {
        start_in_turn(|| Self::begin_now(settings, environment, prepare))
    }

    fn begin_now(settings: &[&str], environment: &[(String, OsString)], prepare: impl FnOnce(&Path)) -> Self {
        let directory = Directory::new();
        give_away(directory.path());
        let data = directory.path().join("data");
        let copied = Command::new("cp").arg("-a").arg(first_data()).arg(&data).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot copy the data of a new server");
        prepare(&data);
        // One user must send a password, for the tests of passwords.
        let rules = data.join("pg_hba.conf");
        let others = std::fs::read_to_string(&rules).expect("initdb wrote it");
        let rules_of = |user| format!("host all {user} 127.0.0.1/32 scram-sha-256\n{others}");
        std::fs::write(&rules, rules_of(Self::WITH_PASSWORD)).expect("a file can be written");
        give_away(directory.path());
        Self::run(settings, environment, directory)
    }

    fn run(settings: &[&str], environment: &[(String, OsString)], directory: Directory) -> Self {
        let port = Port::reserve();
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect::<Vec<_>>();
        let environment = environment.to_vec();
        let process = spawn(&settings, &environment, &directory, &port);
        let mut server = Self { process, settings, environment, directory, port };
        server.wait_ready();
        server
    }

    /// The name of the user that must send a password, once the test has created it.
    pub const WITH_PASSWORD: &'static str = "secretive";

    /// Returns a URL with migration, and with a timeout for a server that is slow on a busy machine:
    /// `postgres://postgres@127.0.0.1:<port>/postgres?migrate=true&timeout=10s`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}&timeout=10s", self.hasty_url())
    }

    /// Returns the [`url`](Self::url) with the default timeout, or with one that the caller adds.
    #[must_use]
    pub fn hasty_url(&self) -> String {
        format!("{}?migrate=true", self.url_of("postgres"))
    }

    /// Returns the URL for a user, without options.
    #[must_use]
    pub fn url_of(&self, user: &str) -> String {
        format!("postgres://{user}@{}/postgres", self.port.address())
    }

    /// Returns the server's address of 127.0.0.1. It does not change during the life of this value.
    #[must_use]
    pub fn address(&self) -> std::net::SocketAddr {
        self.port.address()
    }

    /// Returns the URL for a proxy or a pooler at another port of 127.0.0.1.
    #[must_use]
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres?migrate=true")
    }

    /// Runs statements as the administrator in one transaction, and returns their rows, with `|` between columns.
    ///
    /// # Panics
    /// When the server does not answer or answers with an error.
    #[allow(clippy::must_use_candidate, reason = "some statements are run for what they do")]
    pub fn sql(&self, statements: &str) -> String {
        self.try_sql(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Runs statements that may fail. Otherwise like [`sql`](Self::sql).
    ///
    /// # Errors
    /// The error output of psql.
    ///
    /// # Panics
    /// When psql is not installed.
    pub fn try_sql(&self, statements: &str) -> Result<String, String> {
        // The `psql` on the path of Debian is a script that takes ten times as long.
        let output = Command::new(program("psql"))
            .args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "postgres", "-d", "postgres"])
            .args(["-p", &self.address().port().to_string(), "-c", statements])
            .env("PGCONNECT_TIMEOUT", "60")
            .output();
        let output = output.unwrap_or_else(|error| panic!("{}", why_not(&error)));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Kills the server with SIGKILL, and returns when it has ended. Its children detect this and end.
    pub fn kill9(&mut self) {
        self.process.kill9();
    }

    /// Kills every process of the server at the same moment, so that data in memory are lost.
    pub fn crash(&mut self) {
        self.stop();
        for child in self.children() {
            let _ = kill_process(child, Signal::KILL);
        }
        self.process.kill9();
    }

    /// Kills the server if it runs, and restarts it on the same port with its data.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn restart(&mut self) {
        self.process.kill9();
        self.process = spawn(&self.settings, &self.environment, &self.directory, &self.port);
        self.wait_ready();
    }

    /// Stops every process of the server with SIGSTOP. Connections stay open and get no answer.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues every process of the server.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // The parent is killed first, so that it starts no more children. A child may have ended meanwhile.
        let parent = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        for id in parent.into_iter().chain(self.children()) {
            let _ = kill_process(id, signal);
        }
    }

    fn children(&self) -> Vec<Pid> {
        let parent = self.process.id();
        let children =
            std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
    }

    /// Returns what the server has logged since its last start.
    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Waits until the server answers. After a kill, the server starts only when its last child has ended.
    fn wait_ready(&mut self) {
        let bound = Bound::new(START_WITHIN);
        loop {
            if self.process.exited().is_some() {
                bound.check(&format!("postgres starts: {}", self.log()));
                std::thread::sleep(Duration::from_millis(20));
                self.process = spawn(&self.settings, &self.environment, &self.directory, &self.port);
            }
            // Reading the log costs less than starting a client that is refused.
            if self.log().contains("ready to accept") && self.try_sql("SELECT 1").is_ok() {
                return;
            }
            bound.check("postgres answers");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.cont();
        // An immediate shutdown frees the shared memory.
        self.process.quit();
    }
}

fn spawn(
    settings: &[String],
    environment: &[(String, OsString)],
    directory: &Directory,
    port: &Port,
) -> Process {
    let log = std::fs::File::create(directory.path().join("log")).expect("a log");
    let mut command = unprivileged_program("postgres");
    command.arg("-D").arg(directory.path().join("data"));
    command.args(["-p", &port.address().port().to_string(), "-c", "listen_addresses=127.0.0.1"]);
    command.arg("-k").arg(directory.path());
    for setting in ["fsync=off", "shared_buffers=16MB", "max_wal_size=256MB", "max_connections=60"] {
        command.args(["-c", setting]);
    }
    for setting in settings {
        command.args(["-c", setting]);
    }
    command.envs(environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Process::spawn(&mut command, Some(directory.path())).unwrap_or_else(|error| panic!("{}", why_not(&error)))
}

/// Returns the data of a new server. Each server gets a copy, because creating the data takes ten times as long.
fn first_data() -> PathBuf {
    // A static value is never dropped. The guardian process removes the directory.
    static FIRST: OnceLock<(Directory, Process)> = OnceLock::new();
    let (directory, _) = FIRST.get_or_init(|| {
        let directory = Directory::new();
        give_away(directory.path());
        let made = unprivileged_program("initdb")
            .args([
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                // By default, each copy would contain a log segment of 16 MB.
                "--wal-segsize=1",
                "-D",
            ])
            .arg(directory.path().join("data"))
            .current_dir(directory.path())
            .output();
        let made = made.unwrap_or_else(|error| panic!("{}", why_not(&error)));
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let process = Process::spawn(Command::new("sleep").arg("infinity"), Some(directory.path()));
        (directory, process.expect("cannot start a process"))
    });
    directory.path().join("data")
}

/// Returns a Postgres program, from the path or from Debian's directory.
fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        if let Some(folder) = std::env::var_os(VARIABLE) {
            return Some(folder.into());
        }
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut folders: Vec<PathBuf> =
            versions.flatten().map(|version| version.path().join("bin")).collect();
        folders.retain(|folder| folder.join("postgres").exists() && folder.join("initdb").exists());
        folders.sort();
        folders.pop()
    });
    folder.as_ref().map_or_else(|| name.into(), |folder| folder.join(name))
}

fn unprivileged_program(name: &str) -> Command {
    unprivileged(&program(name).display().to_string())
}

/// Returns a command that does not run as root, because Postgres and pgbouncer refuse root. The process keeps its id.
pub(crate) fn unprivileged(program: &str) -> Command {
    let Some(user) = other_user() else { return Command::new(program) };
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups", "--", program]);
    command.env("HOME", "/");
    command
}

/// Makes the user of the servers the owner of a directory.
pub(crate) fn give_away(directory: &Path) {
    if let Some(user) = other_user() {
        let given = Command::new("chown").arg("-R").arg(format!("{user}:{user}")).arg(directory).status();
        assert!(given.is_ok_and(|status| status.success()), "cannot give {} away", directory.display());
    }
}

/// Returns the id of the user of the servers, if the tests run as root.
fn other_user() -> Option<u32> {
    static USER: OnceLock<Option<u32>> = OnceLock::new();
    *USER.get_or_init(|| {
        rustix::process::geteuid().is_root().then(|| {
            let id = Command::new("id").args(["-u", "postgres"]).output().ok();
            let id = id.and_then(|output| String::from_utf8_lossy(&output.stdout).trim().parse().ok());
            id.unwrap_or(65_534)
        })
    })
}

fn why_not(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => INSTALL.to_owned(),
        _ => format!("cannot start postgres: {error}"),
    }
}
