//! The settings of a store, and of its sessions on the server.

use std::fmt;
use std::time::Duration;

use super::{Address, Timers};
use crate::backend::postgres::opener::Opener;
use crate::backend::remote::tries::CONNECT_TIMEOUT;
use crate::backend::remote::{TlsFiles, deadline, socket};

/// Where the store listens for notifications.
#[derive(Clone, Debug)]
pub(crate) enum Listen {
    /// At the address of the URL, if no pooler that shares its connections answers there.
    Here,
    /// At another address, which bypasses the pooler.
    At(Address),
    /// At a server that has separate settings.
    With(Box<Config>),
    /// Nowhere: waiters rely on their heartbeats.
    Off,
}

/// The default time limit of a dial after a connection was lost.
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// The default time limit of a call. A healthy server answers within a few milliseconds, mostly waiting for its disk. A
/// checkpoint may occupy the disk for longer.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// The default schema. The migration uses the same name.
pub(crate) const SCHEMA: &str = "lock_core";

/// The name in `pg_stat_activity` if the application has none.
const APPLICATION_NAME: &str = env!("CARGO_PKG_NAME");

/// The server's own time limit for a statement. If a statement takes longer, its caller no longer waits. The unusual
/// number shows whether the server has received the setting, because a pooler that shares its connections does not pass
/// settings on.
pub(crate) const STATEMENT_TIMEOUT: &str = "5001ms";

/// How long a call waits for the row of a key that another transaction has locked.
pub(crate) const LOCK_TIMEOUT: &str = "500ms";

/// The schemas in which the session looks up names. The functions without settings depend on these schemas; see
/// attempt.sql.
pub(crate) const SEARCH_PATH: &str = "pg_catalog, pg_temp";

/// The settings of a store. `Debug` shows no credentials.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) address: Address,
    /// The schema of the tables: lower-case letters, digits and `_`.
    pub(crate) schema: String,
    /// Whether connecting creates the tables.
    pub(crate) migrate: bool,
    pub(crate) listen: Listen,
    /// Whether a pooler in front of the server keeps a server connection for each client.
    pub(crate) session_pooling: bool,
    /// Whether the store uses advisory locks instead of the tables.
    pub(crate) advisory: bool,
    /// The time after which the server ends a silent session of advisory locks.
    pub(super) session_timeout: Option<Duration>,
    /// The files of TLS; `None` without TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// Whether the store connects without TLS if TLS fails.
    pub(crate) prefers_tls: bool,
    /// The settings of the driver that the application has passed. With a URL, only the user, the password, the database,
    /// the application name and the options of the session are set here.
    pub(super) driver: tokio_postgres::Config,
    /// The function of the application that opens connections. If it is `None`, the store opens the connections.
    pub(crate) opener: Option<Opener>,
    /// The time limit of the first connection, from name resolution to the last probe.
    pub(crate) connect_timeout: Duration,
    /// The time limit of a later dial. The limit is longer if the previous dial was slow.
    pub(crate) dial_timeout: Duration,
    /// The time limit of one call, including reconnecting.
    pub(crate) timeout: Duration,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("address", &format_args!("{}", self.address))
            .field("database", &self.driver.get_dbname())
            .field("schema", &self.schema)
            .field("tls", &self.tls)
            .field("credentials", &self.driver.get_password().map(|_| format_args!("..")))
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Creates settings with the defaults of the store.
    pub(super) fn new(address: Address, mut driver: tokio_postgres::Config) -> Self {
        if driver.get_application_name().is_none() {
            driver.application_name(APPLICATION_NAME);
        }
        Self {
            address,
            schema: SCHEMA.to_owned(),
            migrate: false,
            listen: Listen::Here,
            session_pooling: false,
            advisory: false,
            session_timeout: None,
            tls: None,
            prefers_tls: false,
            driver,
            opener: None,
            connect_timeout: CONNECT_TIMEOUT,
            dial_timeout: DIAL_TIMEOUT,
            timeout: CALL_TIMEOUT,
        }
    }

    /// Sets the limit of the first connection and of every later dial.
    pub(super) fn set_connect_timeout(&mut self, limit: Duration) {
        (self.connect_timeout, self.dial_timeout) = (limit, limit);
    }

    /// Returns the settings for the driver's handshake. If `settings` is true, the session gets the library's settings,
    /// which a pooler may refuse.
    pub(crate) fn handshake(&self, settings: bool) -> tokio_postgres::Config {
        use tokio_postgres::config::SslMode;
        let mut driver = self.driver.clone();
        if self.opener.is_none() {
            // The store requests TLS itself, instead of the driver.
            driver.ssl_mode(SslMode::Disable);
        } else {
            // The sockets of the store have the same setting. The setting prevents an abandoned connection from
            // delivering data later.
            driver.tcp_user_timeout(socket::UNSENT);
        }
        if settings {
            let own = driver.get_options().map(|own| format!("{own} ")).unwrap_or_default();
            let written = |(name, value): (_, String)| format!("-c {name}={}", value.replace(' ', "\\ "));
            let all: Vec<String> = self.session_settings().map(written).collect();
            driver.options(format!("{own}{}", all.join(" ")));
        }
        driver
    }

    /// Returns the statement that sets the library's settings in a session that was opened without them.
    pub(crate) fn set_settings(&self) -> String {
        let set = |(name, value)| format!("pg_catalog.set_config('{name}', '{value}', false)");
        let all: Vec<String> = self.session_settings().map(set).collect();
        format!("SELECT {}", all.join(", "))
    }

    /// Returns the settings of a session of the library. No value contains a quote.
    fn session_settings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let texts = [
            ("statement_timeout", STATEMENT_TIMEOUT),
            ("default_transaction_isolation", "read committed"),
            ("jit", "off"),
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("lock_timeout", LOCK_TIMEOUT),
            ("search_path", SEARCH_PATH),
        ];
        let timers = self.timers().of_connection().map(|(name, value)| (name, value.to_string()));
        texts.map(|(name, value)| (name, value.to_owned())).into_iter().chain(timers)
    }

    /// Returns the timers of a session. They depend on the session timeout only for advisory locks, which end with
    /// their session.
    pub(crate) fn timers(&self) -> Timers {
        Timers::new(self.advisory.then(|| self.session_timeout()))
    }

    /// Returns the deadline of a call that requests a lease of `lease`.
    pub(crate) fn deadline(&self, lease: Duration) -> Duration {
        deadline::of_call(self.timeout, lease)
    }
}
