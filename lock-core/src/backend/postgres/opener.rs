//! Defines the connections that the application opens for the store.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Client, Error};

use crate::backend::BoxFuture;

/// An error of the application, of any type.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A function that drives a connection and returns its next message.
pub(crate) type NextMessage =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

/// A function that opens a connection of the application. The store calls this function when the store needs a
/// connection.
pub(crate) type Opener =
    Arc<dyn Fn(tokio_postgres::Config) -> BoxFuture<'static, Result<OpenConnection, BoxError>> + Send + Sync>;

/// Wraps a function of the application as an opener.
pub(crate) fn opener<F, O>(open: F) -> Opener
where
    F: Fn(tokio_postgres::Config) -> O + Send + Sync + 'static,
    O: Future<Output = Result<OpenConnection, BoxError>> + Send + 'static,
{
    Arc::new(move |config| Box::pin(open(config)))
}

/// A client of the store, or a client that a pool lends.
pub(crate) type AnyClient = Box<dyn Deref<Target = Client> + Send + Sync>;

/// A connection that the application has opened for the store. See
/// [`PostgresBuilder::open_with`](super::PostgresBuilder::open_with).
pub struct OpenConnection {
    pub(crate) client: AnyClient,
    /// The messages of the connection. `None` if a pool drives the connection, so that the store receives no
    /// notifications.
    pub(crate) messages: Option<NextMessage>,
}

impl OpenConnection {
    /// Wraps a connection of tokio-postgres. The store drives the connection on the runtime that needs it, and receives
    /// the notifications of the connection.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_core::backend::postgres::OpenConnection;
    /// use lock_core::backend::postgres::tokio_postgres::{Config, NoTls};
    ///
    /// # async fn open(config: Config) -> Result<OpenConnection, Box<dyn std::error::Error + Send + Sync>> {
    /// let stream = tokio::net::TcpStream::connect("127.0.0.1:5432").await?;
    /// let (client, connection) = config.connect_raw(stream, NoTls).await?;
    /// Ok(OpenConnection::new(client, connection))
    /// # }
    /// ```
    pub fn new<S, T>(client: Client, mut connection: tokio_postgres::Connection<S, T>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let messages: NextMessage = Box::new(move |cx| connection.poll_message(cx));
        Self { client: Box::new(Box::new(client)), messages: Some(messages) }
    }

    /// Wraps a client that a pool lends. The function `client` returns the inner client. The store keeps the lent
    /// client while the connection lasts. The store then drops the client, which returns it to the pool.
    ///
    /// The pool drives the connection, so the store receives no notifications over it.
    ///
    /// # Examples
    ///
    /// A pool lends a value that dereferences to the client, like this one:
    ///
    /// ```
    /// use lock_core::backend::postgres::OpenConnection;
    /// use lock_core::backend::postgres::tokio_postgres::Client;
    ///
    /// fn of_pool(lent: Box<Client>) -> OpenConnection {
    ///     OpenConnection::lent(lent, |lent| lent)
    /// }
    /// ```
    pub fn lent<P, F>(lent: P, client: F) -> Self
    where
        P: Send + Sync + 'static,
        F: Fn(&P) -> &Client + Send + Sync + 'static,
    {
        Self { client: Box::new(Lent { lent, client }), messages: None }
    }
}

impl fmt::Debug for OpenConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenConnection").finish_non_exhaustive()
    }
}

/// A value that a pool lends, and the function that returns the inner client.
struct Lent<P, F> {
    lent: P,
    client: F,
}

impl<P, F: Fn(&P) -> &Client> Deref for Lent<P, F> {
    type Target = Client;

    fn deref(&self) -> &Client {
        (self.client)(&self.lent)
    }
}

/// Waits for the next message of a connection, and drives the connection meanwhile.
pub(crate) async fn next_message(messages: &mut NextMessage) -> Option<Result<AsyncMessage, Error>> {
    std::future::poll_fn(|cx| messages(cx)).await
}
