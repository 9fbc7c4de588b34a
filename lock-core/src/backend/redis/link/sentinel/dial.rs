//! A connection to one sentinel, and its possible errors.

use std::io;

use ::redis::aio::MultiplexedConnection;
use ::redis::{PushInfo, RedisConnectionInfo, RedisError};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::backend::redis::config::Endpoint;
use crate::backend::redis::error::Failure;
use crate::backend::redis::link::driver::{Driver, connect};
use crate::backend::remote::Tls;

/// The answer of one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The address of the primary, and the number of the failover that made this server the primary.
    Primary(Endpoint, u64),
    /// The sentinel does not watch a primary of this name. The list has the names that it watches, or is `None` if the
    /// user may not request the list.
    Unknown(Option<Vec<String>>),
    /// The sentinel rejects the password, or the user lacks a permission.
    Refused(String),
    /// TLS fails, or the server is no sentinel, until an operator changes a certificate or the URL.
    Unusable(String),
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
    // The send fails only if the caller has dropped the receiver. Such a caller needs no messages.
    let push = move |push| drop(tell.send(push));
    let (connection, driver) = match tls {
        Some(tls) => {
            let stream = tls.wrap(stream, host).await.map_err(|failure: Failure| {
                let text = failure.text().to_owned();
                if failure.is_settled() { Answer::Unusable(text) } else { Answer::Silent(text) }
            })?;
            connect(&info, stream, push).await?
        }
        None => connect(&info, stream, push).await?,
    };
    Ok((connection, driver, told))
}
