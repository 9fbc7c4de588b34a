//! A second server that replicates the first.

use crate::certificates::Certificates;
use crate::redis_server::{RedisBuilder, RedisServer};
use crate::wait::{Bound, START_WITHIN};

/// A replica of a [`RedisServer`].
#[derive(Debug)]
pub struct Replica {
    server: RedisServer,
}

impl Replica {
    /// Starts a replica, and returns when it is linked to `primary` and has its data.
    ///
    /// # Panics
    /// When the link does not come up.
    #[must_use]
    pub fn of(primary: &RedisServer) -> Self {
        Self::follow(primary, RedisServer::builder(), primary.port())
    }

    /// Starts a replica over TLS, which the primary must support. Otherwise like [`of`](Self::of).
    ///
    /// # Panics
    /// When the link does not come up.
    #[must_use]
    pub fn secure(primary: &RedisServer, certificates: &Certificates) -> Self {
        let builder = RedisServer::builder().tls(certificates, false).config("tls-replication", "yes");
        Self::follow(primary, builder, primary.tls_port())
    }

    fn follow(primary: &RedisServer, builder: RedisBuilder, port: u16) -> Self {
        let mut builder = builder.configs("replicaof", &["127.0.0.1", &port.to_string()]);
        if let Some(password) = primary.password() {
            builder = builder.password(password).config("masterauth", password);
        }
        let server = builder.start();
        Bound::new(START_WITHIN)
            .block_until("the replica is linked", || server.info("master_link_status") == "up");
        Self { server }
    }

    /// Returns the replica as a server.
    #[must_use]
    pub fn server(&self) -> &RedisServer {
        &self.server
    }

    /// Cuts the replica off. Later writes to `primary` never reach it.
    ///
    /// The cut is exact, because the replica reconnects with a password that the primary refuses. If the process were
    /// stopped instead, data in a socket's buffer would still arrive.
    ///
    /// # Panics
    /// When the primary still counts the replica.
    pub fn detach(&self, primary: &RedisServer) {
        self.server.command(&["CONFIG", "SET", "masterauth", "not-the-password"]);
        primary.command(&["CLIENT", "KILL", "TYPE", "replica"]);
        Bound::new(START_WITHIN)
            .block_until("the primary has no replica left", || primary.info("connected_slaves") == "0");
    }

    /// Promotes the replica to a primary, with the data that it has.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn promote(&self) {
        self.server.command(&["REPLICAOF", "NO", "ONE"]);
    }
}
