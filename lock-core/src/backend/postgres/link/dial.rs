//! Dials a server within a deadline, and proves that it can hold locks.

use std::future::pending;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{AsyncMessage, NoTls};

use super::connection::Connection;
use super::probe::{Facts, check_version};
use super::shared::Shared;
use super::stream::Upgrade;
use crate::backend::postgres::config::Place;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::postgres::opener::{self, OpenConnection, Opener};
use crate::backend::postgres::recent::RecentKeys;
use crate::backend::remote::{Listeners, Message, socket};
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

/// Connects once to the primary, and proves that it can hold locks.
pub(crate) async fn dial(shared: &Shared) -> Result<Session, Failure> {
    each_place(shared, true).await
}

/// Connects once to the primary, also where it has no tables yet.
pub(crate) async fn open(shared: &Shared) -> Result<Session, Failure> {
    each_place(shared, false).await
}

/// Tries the places in their order, each with its share of the time.
async fn each_place(shared: &Shared, tables: bool) -> Result<Session, Failure> {
    if let Some(opener) = &shared.config.opener {
        let limit = shared.config.connect_timeout;
        let opened = timeout(limit, reach(shared, Way::Opener(opener), tables)).await;
        let late = || format!("the application opened no connection within {limit:?}");
        let opened = opened.unwrap_or_else(|_| Err(Failure::new(LockErrorKind::Unavailable, late())));
        return opened.map_err(Failure::before_any_request);
    }
    let places = &shared.address().0;
    let share = shared.config.connect_timeout / u32::try_from(places.len()).unwrap_or(u32::MAX).max(1);
    let mut last = None;
    for place in places {
        let failure = match timeout(share, reach(shared, Way::Place(place), tables)).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::new(
                LockErrorKind::Unavailable,
                format!(
                    "no answer within {share:?}; is the server up, and does a firewall drop packets to it?"
                ),
            ),
        };
        // No request of a caller was sent yet, so the failure cannot leave one in doubt.
        let failure = failure.before_any_request();
        let failure = if places.len() > 1 { failure.at(place) } else { failure };
        // What only a change of the settings can end is told before an outage.
        if last.as_ref().is_none_or(|last: &Failure| !last.is_permanent()) {
            last = Some(failure);
        }
    }
    Err(last.unwrap_or_else(|| Failure::new(LockErrorKind::Unavailable, "there is no place to connect to")))
}

/// The way to a server.
#[derive(Clone, Copy)]
enum Way<'a> {
    Place(&'a Place),
    Opener(&'a Opener),
}

/// Goes one way, and proves that the server there can hold locks.
async fn reach(shared: &Shared, way: Way<'_>, tables: bool) -> Result<Session, Failure> {
    let session = match connect(shared, way, true).await {
        // The pooler refuses what it does not pass on.
        Err(failure) if failure.reaction == Reaction::WithoutSettings => connect(shared, way, false).await?,
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

async fn connect(shared: &Shared, way: Way<'_>, settings: bool) -> Result<Session, Failure> {
    let config = shared.config.handshake(settings);
    let opened = match way {
        Way::Opener(opener) => opener.open(config).await.map_err(|error| Failure::of_opening(&*error))?,
        Way::Place(place) => knock(shared, place, config).await?,
    };
    Ok(begin(opened, Arc::clone(shared.listeners()), Arc::clone(&shared.wanted)))
}

/// Connects to a place.
async fn knock(
    shared: &Shared,
    place: &Place,
    config: tokio_postgres::Config,
) -> Result<OpenConnection, Failure> {
    match place {
        Place::Tcp { host, port } => {
            let stream = socket::connect(host, *port).await?;
            match shared.tls() {
                Some(tls) => greet(config, stream, encrypting(tls, host)).await,
                None => greet(config, stream, NoTls).await,
            }
        }
        Place::Unix { directory, port } => {
            let path = directory.join(format!(".s.PGSQL.{port}"));
            let stream = UnixStream::connect(path).await.map_err(|error| socket::unreachable(&error))?;
            greet(config, stream, NoTls).await
        }
    }
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
    let (client, connection) = connected.map_err(|error| Failure::of(&error))?;
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
