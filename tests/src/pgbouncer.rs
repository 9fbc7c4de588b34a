//! A pooler in front of a Postgres server.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::Stdio;

use crate::Certificates;
use crate::directory::Directory;
use crate::port::Port;
use crate::postgres_server::{PostgresServer, give_away, unprivileged};
use crate::process::Process;
use crate::wait::{Bound, START_WITHIN};

const INSTALL: &str = "pgbouncer is not installed; run: apt-get install -y pgbouncer";

/// A `pgbouncer` child process. By default it shares its connections among transactions.
#[derive(Debug)]
pub struct PgBouncer {
    process: Process,
    directory: Directory,
    port: Port,
}

impl PgBouncer {
    /// Starts a pooler with `size` connections to the server. `extra` are further lines of its configuration.
    ///
    /// # Panics
    /// When pgbouncer is not installed (the text says how to install it) or does not start.
    #[must_use]
    pub fn before(server: &PostgresServer, size: u32, extra: &str) -> Self {
        Self::start(Directory::new(), server, size, extra)
    }

    /// Starts a pooler for clients that may use TLS. Otherwise like [`before`](Self::before).
    ///
    /// # Panics
    /// When the conditions of [`before`](Self::before) apply.
    #[must_use]
    pub fn with_tls(certificates: &Certificates, server: &PostgresServer, size: u32, extra: &str) -> Self {
        let directory = Directory::new();
        let file = |name| directory.path().join(name);
        for name in ["server.pem", "server.key"] {
            std::fs::copy(certificates.file(name), file(name)).expect("a certificate can be copied");
        }
        let tls = format!(
            "client_tls_sslmode = allow\nclient_tls_cert_file = {}\nclient_tls_key_file = {}\n{extra}",
            file("server.pem").display(),
            file("server.key").display()
        );
        Self::start(directory, server, size, &tls)
    }

    fn start(directory: Directory, server: &PostgresServer, size: u32, extra: &str) -> Self {
        let port = Port::reserve();
        let (from, to) = (port.address().port(), server.address().port());
        let at = directory.path().display();
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={to}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {from}\n\
             auth_type = trust\nauth_file = {at}/users\npool_mode = transaction\ndefault_pool_size = {size}\n\
             max_client_conn = 200\nunix_socket_dir =\nlogfile = {at}/log\n{extra}\n"
        );
        for (name, text) in [("settings.ini", settings.as_str()), ("users", "\"postgres\" \"\"\n")] {
            std::fs::write(directory.path().join(name), text).expect("a file can be written");
        }
        give_away(directory.path());
        let mut command = unprivileged("pgbouncer");
        command.arg(directory.path().join("settings.ini"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::spawn(&mut command, Some(directory.path())).unwrap_or_else(|error| {
            assert_ne!(error.kind(), ErrorKind::NotFound, "{INSTALL}");
            panic!("cannot start pgbouncer: {error}")
        });
        let mut pooler = Self { process, directory, port };
        Bound::new(START_WITHIN).block_until("pgbouncer listens", || {
            if let Some(status) = pooler.process.exited() {
                let log = std::fs::read_to_string(pooler.directory.path().join("log")).unwrap_or_default();
                panic!("pgbouncer ended at its start ({status}); {INSTALL}: {log}");
            }
            TcpStream::connect(pooler.port.address()).is_ok()
        });
        pooler
    }

    /// Returns `postgres://postgres@127.0.0.1:<port>/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.port.address())
    }
}
