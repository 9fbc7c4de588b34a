//! A connection to one sentinel, and its possible errors.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::backend::redis::config::{Config, Endpoint};
use crate::backend::redis::error::Failure;
use crate::backend::remote::Tls;

/// The minimum time limit for one sentinel after another has answered. A healthy sentinel answers within a millisecond,
/// and a dial sends its requests to all sentinels at once.
const PATIENCE: Duration = Duration::from_millis(300);

/// Returns the time limit for one sentinel after another has answered. A request takes three round trips, or four with
/// TLS. A dial sends two requests one after the other, and even on a slow link both must fit into its time limit.
pub(super) fn patience(config: &Config) -> Duration {
    PATIENCE.max(config.dial_timeout / 3)
}

/// The answer of one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The address of the primary, and the number of the failover that made this server the primary.
    Primary(Endpoint, u64),
    /// The sentinel does not watch a primary of this name. The list has the names that it watches, or is `None` if the
    /// user may not request the list.
    Unknown(Option<Vec<String>>),
    /// The sentinel rejects the password, or the user lacks a permission.
    Refused(String),
    /// TLS fails until an operator changes a certificate or the URL.
    Untrusted(String),
    /// The sentinel sent no usable answer. The text is the reason.
    Silent(String),
}

impl From<RedisError> for Answer {
    fn from(error: RedisError) -> Self {
        match error.code() {
            Some(code @ ("NOAUTH" | "WRONGPASS" | "NOPERM")) => Self::Refused(code.to_owned()),
            _ => Self::Silent(error.to_string()),
        }
    }
}

impl From<io::Error> for Answer {
    fn from(error: io::Error) -> Self {
        Self::Silent(error.to_string())
    }
}

/// Returns the answer of a sentinel that could not be reached.
pub(super) fn silent(failure: &Failure) -> Answer {
    Answer::Silent(failure.text().to_owned())
}

pub(super) fn login(config: &Config) -> RedisConnectionInfo {
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    if let Some((user, password)) = &config.sentinel_login {
        if let Some(user) = user {
            info = info.set_username(user);
        }
        info = info.set_password(password);
    }
    info
}

/// The task that drives a connection. Dropping this value aborts the task.
pub(super) struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The messages that a sentinel pushes.
pub(super) type Told = mpsc::UnboundedReceiver<PushInfo>;

pub(super) async fn greet(
    stream: TcpStream,
    host: &str,
    tls: Option<&Tls>,
    info: RedisConnectionInfo,
) -> Result<(MultiplexedConnection, Driver, Told), Answer> {
    stream.set_nodelay(true)?;
    let (tell, told) = mpsc::unbounded_channel();
    let options = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let options = options.set_push_sender(move |push: PushInfo| {
        // The send fails only if the caller has dropped the receiver. Such a caller needs no messages.
        let _ = tell.send(push);
        Ok::<_, Infallible>(())
    });
    let (connection, driver) = match tls {
        Some(tls) => {
            let stream = tls.wrap(stream, host).await.map_err(|failure: Failure| {
                let text = failure.text().to_owned();
                if failure.is_settled() { Answer::Untrusted(text) } else { Answer::Silent(text) }
            })?;
            let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, options).await?;
            (connection, tokio::spawn(driver))
        }
        None => {
            let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, options).await?;
            (connection, tokio::spawn(driver))
        }
    };
    Ok((connection, Driver(driver), told))
}
