//! Builds a store from settings of the driver, or with connections of the application.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::advisory::PostgresAdvisory;
use super::backend::Postgres;
use super::config::{Config, Listen, is_schema};
use super::opener::{BoxError, OpenConnection, opener};
use crate::error::{LockError, LockErrorKind, Result};

/// Builds a [`Postgres`] from settings of the driver, or with connections that the application opens. Such connections
/// may come from a pool, or use the application's own TLS or a password that changes.
///
/// # Examples
///
/// ```no_run
/// use lock_core::LockManager;
/// use lock_core::backend::postgres::{Postgres, tokio_postgres};
///
/// # async fn manager() -> lock_core::Result<()> {
/// let mut config = tokio_postgres::Config::new();
/// config.host("db").user("app").password("secret").dbname("shop");
/// let locks = LockManager::builder(Postgres::from_config(config).connect().await?).build()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it connects"]
pub struct PostgresBuilder {
    /// Settings that were not checked yet.
    config: Config,
}

impl fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresBuilder").field("schema", &self.config.schema).finish_non_exhaustive()
    }
}

// Defined here and not next to the type, so that the store does not depend on its builder.
impl Postgres {
    /// Returns a builder with settings of the driver. The settings are: hosts, ports, user, password, database,
    /// application name, options of the session, the TLS mode, and `connect_timeout`, which limits the first connection
    /// and every later dial.
    ///
    /// If there are several hosts, the first one that accepts writes is used. `SslMode::Require` verifies the
    /// certificate and its name with the certificate authorities of the system, and needs the feature `tls`.
    /// `SslMode::Prefer`, the driver's default, means no TLS, as in the driver with `NoTls`. Other settings of the
    /// driver, such as its keepalives, have no effect on connections that the store opens.
    ///
    /// # Examples
    ///
    /// See [`PostgresBuilder`].
    pub fn from_config(config: tokio_postgres::Config) -> PostgresBuilder {
        PostgresBuilder { config: Config::from_driver(config) }
    }
}

impl PostgresBuilder {
    /// Opens the connections with `open`. By default, the store opens them itself.
    ///
    /// The store needs one connection for each tokio runtime that acquires locks, one for renewals, and one that
    /// listens. The store keeps each connection until the connection is lost, and then calls `open` again. `open` runs
    /// on the runtime that needs the connection. The time limit of `open` is the `connect_timeout` of the settings
    /// (default 10 s). If `connect_timeout` is not set, a later dial has a limit of 2 s, or up to 10 s after a slow
    /// dial.
    ///
    /// `open` receives the settings of [`from_config`](Postgres::from_config), plus the options that the store needs
    /// for its session. If `open` does not apply these options, the store treats the connection like one behind a
    /// pooler: the store sets nothing for the session, and receives no notifications over it. The same is true for a
    /// client that a pool [lends](OpenConnection::lent), so name the server in [`listen_with`](Self::listen_with).
    ///
    /// # Examples
    ///
    /// An application with a changing password and its own TLS connector `tls` (in this example `NoTls`):
    ///
    /// ```no_run
    /// use lock_core::backend::postgres::{OpenConnection, Postgres, tokio_postgres};
    ///
    /// # async fn new_token() -> std::io::Result<String> { Ok(String::new()) }
    /// # async fn store() -> lock_core::Result<()> {
    /// let mut config = tokio_postgres::Config::new();
    /// config.user("app").dbname("shop");
    /// let postgres = Postgres::from_config(config)
    ///     .open_with(|mut config| async move {
    ///         config.password(new_token().await?);
    ///         let (tls, stream) = (tokio_postgres::NoTls, tokio::net::TcpStream::connect("db:5432").await?);
    ///         let (client, connection) = config.connect_raw(stream, tls).await?;
    ///         Ok(OpenConnection::new(client, connection))
    ///     })
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With the pool `deadpool-postgres`:
    ///
    /// ```text
    /// let postgres = Postgres::from_config(config.clone())
    ///     .open_with(move |_| {
    ///         let pool = pool.clone();
    ///         async move { Ok(OpenConnection::lent(pool.get().await?, |lent| lent)) }
    ///     })
    ///     .listen_with(config)
    ///     .connect()
    ///     .await?;
    /// ```
    pub fn open_with<F, O>(self, open: F) -> Self
    where
        F: Fn(tokio_postgres::Config) -> O + Send + Sync + 'static,
        O: Future<Output = std::result::Result<OpenConnection, BoxError>> + Send + 'static,
    {
        self.with(|config| config.set_opener(opener(open)))
    }

    /// Sets the name of the schema of the tables: lower-case letters, digits and `_`. Default: `lock_core`.
    pub fn schema(self, name: impl Into<String>) -> Self {
        self.with(|config| config.schema = name.into())
    }

    /// Creates the tables in [`connect`](Self::connect) if they are missing or have an earlier version. Default: no.
    pub fn migrate(self, migrate: bool) -> Self {
        self.with(|config| config.migrate = migrate)
    }

    /// Limits one call, including reconnecting. A request is also limited to half of its lease, and a renewal to a
    /// quarter of the shortest lease in its batch. Default: 1 s.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|config| config.timeout = timeout)
    }

    /// Sets separate settings for the connection that listens for notifications, to bypass a pooler or a pool. The
    /// store opens this connection itself, as with [`from_config`](Postgres::from_config). By default, this connection
    /// uses the settings of the other connections.
    pub fn listen_with(self, config: tokio_postgres::Config) -> Self {
        let other = Config::from_driver(config);
        self.with(|config| config.listen = Listen::With(Box::new(other)))
    }

    /// Disables notifications: waiters then rely on their heartbeats. Default: notifications are enabled.
    pub fn without_notifications(self) -> Self {
        self.with(|config| config.listen = Listen::Off)
    }

    /// Sets the time after which the server frees the advisory locks of a silent process. This setting is only for
    /// [`connect_advisory`](Self::connect_advisory). If it is set, [`connect`](Self::connect) fails. The value must be
    /// from 1 s to 1 h. With any other value, connecting fails. Default: 10 s.
    pub fn session_timeout(self, timeout: Duration) -> Self {
        self.with(|config| config.set_session_timeout(timeout))
    }

    /// Declares that the server is behind a pooler in session mode, which keeps a server connection for each client.
    /// With such a pooler, notifications arrive, and [`connect_advisory`](Self::connect_advisory) works. The store
    /// verifies this when it connects. See [the module](super#behind-a-pooler). Default: `false`.
    pub fn session_pooling(self, session: bool) -> Self {
        self.with(|config| config.session_pooling = session)
    }

    /// Connects to a store of [advisory locks](super::advisory), which needs no tables and has fewer features.
    ///
    /// # Errors
    ///
    /// The errors of [`PostgresAdvisory::connect`] and of [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect_advisory(self) -> Result<PostgresAdvisory> {
        PostgresAdvisory::open(self.config()?).await
    }

    /// Connects, and checks that the server can hold locks.
    ///
    /// # Errors
    ///
    /// The errors of [`Postgres::connect`], and two more. [`InvalidRequest`](LockErrorKind::InvalidRequest): the
    /// settings of the driver have a `hostaddr`, different numbers of hosts and ports, or no host although the store
    /// opens the connections. [`Unavailable`](LockErrorKind::Unavailable): the application could not open a connection.
    /// The text then repeats the error of the application.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with its I/O and time drivers.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connections.
    pub async fn connect(self) -> Result<Postgres> {
        Postgres::open(self.config()?).await
    }

    fn with(mut self, set: impl FnOnce(&mut Config)) -> Self {
        set(&mut self.config);
        self
    }

    /// Returns the settings after all checks.
    fn config(self) -> Result<Config> {
        let config = self.config;
        config.check_driver()?;
        if !is_schema(&config.schema) {
            let detail = "the name of the schema has lower-case letters, digits and `_`, at most 63, and is none of Postgres \
                          itself";
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        }
        if let Listen::With(other) = &config.listen {
            other.check_driver()?;
        }
        Ok(config)
    }
}
