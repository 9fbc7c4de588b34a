//! Opens one connection and logs in.

use std::error::Error as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio_postgres::NoTls;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::TlsConnect;

use super::shared::Shared;
use super::stream::{Upgrade, handshake_failure};
use super::tls_request::request_tls;
use crate::backend::postgres::error::Failure;
use crate::backend::postgres::opener::{OpenConnection, Opener};
use crate::backend::remote::{Tls, Words, socket};

/// A way to open a connection to one server.
pub(super) enum Way<'a> {
    /// An address of a host. The server's certificate must contain the name of the host.
    Tcp(&'a str, SocketAddr),
    Unix(PathBuf),
    Opener(&'a Opener),
}

/// Opens a connection. If `settings` is true, the login requests the settings of the library, which a pooler may
/// refuse.
pub(super) async fn connect(
    shared: &Shared,
    way: &Way<'_>,
    settings: bool,
) -> Result<OpenConnection, Failure> {
    let config = shared.config.handshake(settings);
    match way {
        Way::Opener(open) => open(config).await.map_err(|error| Failure::of_opening(&*error)),
        Way::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| socket::unreachable(&error))?;
            log_in(config, Words::new(stream), NoTls).await
        }
        Way::Tcp(host, address) => match shared.tls() {
            None => plain(config, *address).await,
            Some(tls) => match encrypted(config.clone(), tls, host, *address).await {
                // As in libpq, `sslmode=prefer` opens the connection without encryption if TLS fails.
                Err(failure)
                    if shared.config.prefers_tls && failure.is_settled() && !failure.is_permanent() =>
                {
                    tracing::warn!(
                        server = %host, ?failure,
                        "`sslmode=prefer`: TLS fails, and the connection is not encrypted; write `verify-full` or `disable`"
                    );
                    plain(config, *address).await
                }
                opened => opened,
            },
        },
    }
}

async fn plain(config: tokio_postgres::Config, address: SocketAddr) -> Result<OpenConnection, Failure> {
    log_in(config, Words::new(socket::connect_to(address).await?), NoTls).await
}

async fn encrypted(
    mut config: tokio_postgres::Config,
    tls: &Tls,
    host: &str,
    address: SocketAddr,
) -> Result<OpenConnection, Failure> {
    let mut stream = socket::connect_to(address).await?;
    request_tls(&mut stream).await?;
    // The server has already agreed to TLS, so the driver begins with the handshake.
    config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
    log_in(config, stream, Upgrade { tls: tls.clone(), host: host.to_owned() }).await
}

async fn log_in<S, T>(config: tokio_postgres::Config, stream: S, tls: T) -> Result<OpenConnection, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsConnect<S>,
    T::Stream: Send + 'static,
{
    let connected = config.connect_raw(stream, tls).await;
    let (client, connection) = connected.map_err(|error| {
        if let Some(failure) = handshake_failure(&error) {
            return failure;
        }
        let is_answer =
            !error.is_closed() && !error.source().is_some_and(|cause| cause.is::<std::io::Error>());
        let failure = Failure::from_driver(&error);
        // The peer replied, but not with a Postgres error. So it is another service.
        if is_answer && error.as_db_error().is_none() { failure.settled() } else { failure }
    })?;
    Ok(OpenConnection::new(client, connection))
}
