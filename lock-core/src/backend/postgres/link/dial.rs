//! Dials a server within a deadline, and proves that it can hold locks.

use std::error::Error as _;
use std::future::pending;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{AsyncMessage, NoTls};

use super::connection::Connection;
use super::probe::{Facts, check_version};
use super::shared::Shared;
use super::stream::{Upgrade, of_tls};
use crate::backend::BoxFuture;
use crate::backend::postgres::config::Place;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::postgres::opener::{self, OpenConnection, Opener};
use crate::backend::postgres::recent::RecentKeys;
use crate::backend::remote::{Listeners, Message, Words, race, socket};
use crate::error::LockErrorKind;
use crate::key::Key;

/// The beginning of the name of a channel; the process follows.
pub(super) const CHANNEL: &str = "lock:wake:";

/// A connection and the task that drives it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) live: Arc<Connection>,
    pub(super) driver: Driver,
}

impl Session {
    /// Waits for the end of the connection.
    pub(crate) async fn ended(&mut self) {
        self.driver.ended().await;
    }

    /// Returns whether notifications arrive over this connection, if the server sends any.
    fn hears(&self) -> bool {
        self.driver.0.is_some()
    }
}

/// The driver's task; `None` where somebody else drives the connection. Dropping this value aborts the task, so that an
/// abandoned dial leaves no socket open.
#[derive(Debug)]
pub(super) struct Driver(Option<JoinHandle<()>>);

impl Driver {
    /// Waits for the end of the connection.
    pub(super) async fn ended(&mut self) {
        match &mut self.0 {
            Some(task) => drop(task.await),
            None => pending().await,
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Connects once to the primary within `limit`, and proves that it can hold locks.
pub(crate) async fn dial(shared: &Shared, limit: Duration) -> Result<Session, Failure> {
    any_place(shared, true, limit).await
}

/// Connects once to the primary within `limit`, also where it has no tables yet.
pub(crate) async fn open(shared: &Shared, limit: Duration) -> Result<Session, Failure> {
    any_place(shared, false, limit).await
}

/// The head start of one place, or one address of its name, before the next is tried too.
const HEAD_START: Duration = Duration::from_millis(500);

/// Tries the places in their order, and keeps the first that can hold locks.
async fn any_place(shared: &Shared, tables: bool, limit: Duration) -> Result<Session, Failure> {
    if let Some(opener) = &shared.config.opener {
        let opened = timeout(limit, reach(shared, Way::Opener(opener), tables)).await;
        let late = || format!("the application opened no connection within {limit:?}");
        let opened = opened.unwrap_or_else(|_| Err(Failure::new(LockErrorKind::Unavailable, late())));
        return opened.map_err(Failure::before_any_request);
    }
    let places = &shared.address().0;
    let attempt = |place| -> BoxFuture<'_, Result<Session, Failure>> {
        Box::pin(async move {
            let reached = timeout(limit, any_address(shared, place, tables)).await;
            let late = || {
                format!(
                    "no answer within {limit:?}; is the server up, and does a firewall drop packets to it?"
                )
            };
            let reached = reached.unwrap_or_else(|_| Err(Failure::new(LockErrorKind::Unavailable, late())));
            // No request of a caller was sent yet, so the failure cannot leave one in doubt.
            let reached = reached.map_err(Failure::before_any_request);
            if places.len() > 1 {
                reached.map_err(|failure| one_of_several(failure).at(place))
            } else {
                reached
            }
        })
    };
    let reached = race::first(places.iter().map(attempt).collect(), HEAD_START).await;
    reached
        .unwrap_or_else(|| Err(Failure::new(LockErrorKind::Unavailable, "there is no place to connect to")))
}

/// Tries the addresses of a place: a name may lead to several servers, of which one is the primary.
async fn any_address(shared: &Shared, place: &Place, tables: bool) -> Result<Session, Failure> {
    let ways = match place {
        Place::Tcp { host, port } => {
            let found = socket::addresses(host, *port).await.map_err(|error| socket::unreachable(&error))?;
            found.into_iter().map(|address| Way::Tcp(host, address)).collect()
        }
        Place::Unix { directory, port } => vec![Way::Unix(directory.join(format!(".s.PGSQL.{port}")))],
    };
    let is_one = ways.len() == 1;
    let attempt = |way| -> BoxFuture<'_, Result<Session, Failure>> {
        Box::pin(async move {
            let reached = reach(shared, way, tables).await;
            if is_one { reached } else { reached.map_err(one_of_several) }
        })
    };
    let reached = race::first(ways.into_iter().map(attempt).collect(), HEAD_START).await;
    reached.unwrap_or_else(|| Err(Failure::new(LockErrorKind::Unavailable, "the name has no address")))
}

/// Returns the failure of one of several servers. A standby says nothing of the others: the primary may be about to come
/// back, or to be another one.
fn one_of_several(failure: Failure) -> Failure {
    if failure.reaction == Reaction::Reconnect { failure.temporary() } else { failure }
}

/// The way to a server.
enum Way<'a> {
    /// An address of a host. The host is the name that the server's certificate must have.
    Tcp(&'a str, SocketAddr),
    Unix(PathBuf),
    Opener(&'a Opener),
}

/// Goes one way, and proves that the server there can hold locks.
async fn reach(shared: &Shared, way: Way<'_>, tables: bool) -> Result<Session, Failure> {
    let session = match connect(shared, &way, true).await {
        // The pooler refuses what it does not pass on.
        Err(failure) if failure.reaction == Reaction::WithoutSettings => connect(shared, &way, false).await?,
        answer => answer?,
    };
    // Both at once: a caller may wait for this dial, and its deadline is running.
    let (facts, version) = tokio::join!(Facts::ask(&session.live, &shared.config.schema), async {
        if tables { check_version(&session.live, &shared.statements.version).await } else { Ok(()) }
    });
    let facts = facts?;
    // Before the other answer: it names the reason why a server cannot hold locks.
    facts.examine()?;
    // Of a client that a pool lends, nobody here hears notifications.
    shared.set_pooled(facts.is_pooled() || !session.hears());
    if !facts.is_pooled() {
        session.live.set_process(facts.process.clone());
    }
    if tables && !facts.has_tables {
        return Err(Failure::not_migrated());
    }
    version?;
    if tables && session.hears() && facts.has_settings() {
        session.live.prepare(&shared.statements.often(), shared.own()).await?;
    }
    Ok(session)
}

async fn connect(shared: &Shared, way: &Way<'_>, settings: bool) -> Result<Session, Failure> {
    let config = shared.config.handshake(settings);
    let opened = match way {
        Way::Opener(opener) => opener.open(config).await.map_err(|error| Failure::of_opening(&*error))?,
        Way::Tcp(host, address) => {
            let stream = socket::connect_to(*address).await?;
            match shared.tls() {
                Some(tls) => match greet(config.clone(), stream, encrypting(tls, host)).await {
                    // As libpq: TLS that fails is none.
                    Err(failure)
                        if shared.config.prefers_tls && failure.is_settled() && !failure.is_permanent() =>
                    {
                        tracing::warn!(
                            server = %host, ?failure,
                            "`sslmode=prefer`: TLS fails, and the connection is not encrypted; write `verify-full` or `disable`"
                        );
                        let mut config = config;
                        config.ssl_mode(SslMode::Disable);
                        let stream = socket::connect_to(*address).await?;
                        greet(config, Words::new(stream), NoTls).await?
                    }
                    greeted => greeted?,
                },
                None => greet(config, Words::new(stream), NoTls).await?,
            }
        }
        Way::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| socket::unreachable(&error))?;
            greet(config, Words::new(stream), NoTls).await?
        }
    };
    Ok(begin(opened, Arc::clone(shared.listeners()), Arc::clone(&shared.wanted)))
}

fn encrypting(tls: &crate::backend::remote::Tls, host: &str) -> Upgrade {
    Upgrade { tls: tls.clone(), host: host.to_owned() }
}

/// Authenticates.
async fn greet<S, T>(config: tokio_postgres::Config, stream: S, tls: T) -> Result<OpenConnection, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: TlsConnect<S>,
    T::Stream: Send + 'static,
{
    let connected = config.connect_raw(stream, tls).await;
    let (client, connection) = connected.map_err(|error| {
        let failure = of_tls(&error).unwrap_or_else(|| Failure::of(&error));
        // The peer has answered, and not with an error of Postgres: it has no TLS, or is another service.
        let is_answer =
            !error.is_closed() && !error.source().is_some_and(|cause| cause.is::<std::io::Error>());
        if is_answer && error.as_db_error().is_none() && of_tls(&error).is_none() {
            failure.settled()
        } else {
            failure
        }
    })?;
    Ok(OpenConnection::new(client, connection))
}

/// Spawns the task that drives a connection and delivers notifications.
fn begin(opened: OpenConnection, listeners: Arc<Listeners>, wanted: Arc<RecentKeys>) -> Session {
    let live = Arc::new(Connection::new(opened.client));
    let drive = |mut messages| {
        tokio::spawn(async move {
            while let Some(Ok(message)) = opener::next(&mut messages).await {
                if let AsyncMessage::Notification(told) = message {
                    deliver(&listeners, &wanted, told.channel(), told.payload());
                }
            }
        })
    };
    Session { live, driver: Driver(opened.messages.map(drive)) }
}

/// Delivers a notification. Ignores those that it does not know, because any user of the database may send one.
fn deliver(listeners: &Listeners, wanted: &RecentKeys, channel: &str, payload: &str) {
    let process = channel.strip_prefix(CHANNEL).and_then(|process| u128::from_str_radix(process, 16).ok());
    let message = process.and_then(|process| Some((process, Message::parse(process, payload)?)));
    match message {
        Some((process, message)) => {
            if let Message::Contended(key) = message
                && let Ok(key) = Key::new(key)
            {
                wanted.note(&key);
            }
            message.deliver(listeners, process);
        }
        None => tracing::debug!("an unknown notification was ignored"),
    }
}
