//! Opens one connection and logs in.

use std::error::Error as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio_postgres::NoTls;

use super::shared::Shared;
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
            log_in(config, Words::new(stream)).await
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
    log_in(config, Words::new(socket::connect_to(address).await?)).await
}

async fn encrypted(
    config: tokio_postgres::Config,
    tls: &Tls,
    host: &str,
    address: SocketAddr,
) -> Result<OpenConnection, Failure> {
    let mut stream = socket::connect_to(address).await?;
    request_tls(&mut stream).await?;
    log_in(config, tls.wrap(stream, host).await?).await
}

/// Logs in over a stream of the store. The driver does not request TLS, because its settings turn TLS off.
async fn log_in<S>(config: tokio_postgres::Config, stream: S) -> Result<OpenConnection, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connected = config.connect_raw(stream, NoTls).await;
    let (client, connection) = connected.map_err(|error| {
        let is_answer =
            !error.is_closed() && !error.source().is_some_and(|cause| cause.is::<std::io::Error>());
        let failure = Failure::from_driver(&error);
        // The peer replied, but not with a Postgres error. So it is another service.
        if is_answer && error.as_db_error().is_none() { failure.settled() } else { failure }
    })?;
    Ok(OpenConnection::new(client, connection))
}
