//! The settings of a URL.

use std::fmt;
use std::time::Duration;

use ::redis::{ProtocolVersion, RedisConnectionInfo};

use super::Address;
use super::durability::{Durability, MinReplicas};
use crate::backend::remote::TlsFiles;
use crate::backend::remote::tries::CONNECT_TIMEOUT;

/// The default time limit of a dial after a connection was lost. If a dial takes longer, the network probably drops
/// packets.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The minimum time limit for one sentinel or node after another has answered. If it is healthy, it answers within a
/// millisecond, and all requests are sent at once.
const PATIENCE: Duration = Duration::from_millis(300);

/// The settings of a URL. `Debug` shows no credentials.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) address: Address,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(crate) db: i64,
    /// The user and the password of the sentinels.
    pub(crate) sentinel_login: Option<(Option<String>, String)>,
    /// The files of a `rediss://` URL; `None` without TLS.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) durability: Option<Durability>,
    pub(crate) min_replicas: MinReplicas,
    /// The name of each connection in `CLIENT LIST`.
    pub(crate) client_name: String,
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
            .field("db", &self.db)
            .field("tls", &self.tls)
            .field("durability", &self.durability)
            .field("credentials", &self.password.as_ref().map(|_| format_args!("..")))
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl Config {
    /// The default time limit of a call. A healthy server answers in less than a millisecond. Half a second is enough
    /// for two retransmissions of a lost packet.
    pub(crate) const CALL_TIMEOUT: Duration = Duration::from_millis(500);
    /// The user of a connection if the URL names no user.
    const DEFAULT_USER: &str = "default";

    pub(super) fn new(address: Address, user: Option<String>, password: Option<String>, db: i64) -> Self {
        Self {
            address,
            user,
            password,
            db,
            sentinel_login: None,
            tls: None,
            durability: None,
            min_replicas: MinReplicas::Read,
            client_name: env!("CARGO_PKG_NAME").to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
            dial_timeout: DIAL_TIMEOUT,
            timeout: Self::CALL_TIMEOUT,
        }
    }

    /// Returns the settings for one node of the Cluster.
    pub(crate) fn of_node(&self, (host, port): (String, u16)) -> Self {
        Self { address: Address::Tcp { host, port }, ..self.clone() }
    }

    /// Returns the name of the user, for messages about its rights.
    pub(crate) fn user(&self) -> &str {
        self.user.as_deref().unwrap_or(Self::DEFAULT_USER)
    }

    /// Returns the name of the user of the sentinels.
    pub(crate) fn sentinel_user(&self) -> &str {
        let user = self.sentinel_login.as_ref().and_then(|(user, _)| user.as_deref());
        user.unwrap_or(Self::DEFAULT_USER)
    }

    /// Returns the time limit for one sentinel, or one node of the Cluster, after another has answered. A request takes
    /// three round trips, or four with TLS. A dial sends two requests to the sentinels one after the other, and even on
    /// a slow link both must fit into its time limit.
    pub(crate) fn patience(&self) -> Duration {
        PATIENCE.max(self.dial_timeout / 3)
    }

    /// Returns the same time limit for a request within a call, which must end before the call times out.
    pub(crate) fn patience_of_call(&self) -> Duration {
        PATIENCE.max((self.dial_timeout / 3).min(self.timeout * 2 / 3))
    }

    /// Returns the settings for the driver's handshake.
    pub(crate) fn handshake(&self) -> RedisConnectionInfo {
        info(self.user.as_deref(), self.password.as_deref(), self.db)
    }

    /// Returns the settings for the driver's handshake with a sentinel, which has only one database.
    pub(crate) fn sentinel_handshake(&self) -> RedisConnectionInfo {
        let (user, password) =
            self.sentinel_login.as_ref().map(|(user, password)| (user.as_deref(), &**password)).unzip();
        info(user.flatten(), password, 0)
    }
}

fn info(user: Option<&str>, password: Option<&str>, db: i64) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
        .set_db(db);
    if let Some(user) = user {
        info = info.set_username(user);
    }
    if let Some(password) = password {
        info = info.set_password(password);
    }
    info
}
