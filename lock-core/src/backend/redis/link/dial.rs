//! Dials a server within a deadline, and checks that it can hold locks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, ErrorKind, Pipeline, PushInfo, RedisError, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::clock::{ServerClock, server_time};
use super::connection::{Connection, Poisoned};
use super::driver::{self, Driver};
use super::messages;
use super::probe::{self, text};
use super::rights;
use super::role::{Greeting, Role};
use super::sentinel;
use super::shared::Shared;
use super::way::{Way, ways};
use crate::backend::redis::config::Address;
use crate::backend::redis::config::Endpoint;
use crate::backend::redis::error::{Failure, Reaction};
use crate::backend::redis::keyspace::Keyspace;
use crate::backend::redis::scripts::{Script, Scripts};
use crate::backend::remote::{Words, race, socket, tries};
use crate::clock::Clock;
use crate::error::{LockErrorKind, Result as LockResult};
use crate::simulation;

/// A connection and the task that drives it.
#[derive(Debug)]
pub(crate) struct Session<R: Role> {
    pub(crate) live: Arc<Connection<R::Session>>,
    pub(crate) driver: Driver,
    /// The address of the primary that the sentinels named; `None` without sentinels.
    pub(crate) place: Option<Endpoint>,
}

/// A connection without a session, the task that drives it, and the reasons to drop it.
type Opened = (MultiplexedConnection, Driver, Arc<Poisoned>);

/// Opens the first connection of a store within its `connect_timeout`.
pub(crate) async fn first<R: Role>(server: &Shared<R>) -> LockResult<Session<R>> {
    let limit = server.config.connect_timeout;
    let dialled = tries::connect(server.address(), limit, |left| Box::pin(dial(server, left))).await;
    dialled.map_err(|failure| failure.to_error(server.address()))
}

/// Connects once, within `deadline`.
pub(crate) async fn dial<R: Role>(server: &Shared<R>, deadline: Duration) -> Result<Session<R>, Failure> {
    let progress = Progress::default();
    match timeout(deadline, connect(server, &progress, deadline)).await {
        Ok(Ok(session)) => Ok(session),
        // No request of a caller was sent yet, so no request can have taken effect.
        Ok(Err(failure)) => Err(failure.before_any_request()),
        Err(_) => Err(progress.out_of_time(deadline)),
    }
}

/// The progress of a dial. If a dial times out, its error names the step that did not answer.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    /// The dial connects to the server, or to the sentinels that name the server. All steps without a constant count as
    /// this step.
    const CONNECTING: u8 = 0;
    const TLS: u8 = 1;
    const GREETING: u8 = 2;

    fn reached(&self, step: u8) {
        self.0.store(step, Ordering::Relaxed);
    }

    /// Returns the failure of a dial that did not finish within `deadline`.
    pub(crate) fn out_of_time(&self, deadline: Duration) -> Failure {
        let text = match self.0.load(Ordering::Relaxed) {
            Self::TLS => {
                format!("TLS failed (no answer within {deadline:?}); does the server speak TLS on this port?")
            }
            Self::GREETING => format!(
                "connected, but no greeting within {deadline:?}; does the server hang, and is it Redis that listens there?"
            ),
            _ => format!(
                "no connection within {deadline:?}; is the server up, and does a firewall drop packets to it?"
            ),
        };
        Failure::new(LockErrorKind::Unavailable, text)
    }
}

async fn connect<R: Role>(
    server: &Shared<R>,
    progress: &Progress,
    deadline: Duration,
) -> Result<Session<R>, Failure> {
    // The sentinels get less than the whole deadline, because an error about the sentinels is more useful than a
    // timeout of the dial.
    let ask = |sentinels| sentinel::primary(&server.config, server.tls(), sentinels, deadline * 3 / 4);
    let place = match server.address() {
        Address::Tcp { host, port } => Some((host.clone(), *port)),
        Address::Sentinel(sentinels) => Some(ask(sentinels).await?),
        Address::Unix(_) | Address::Cluster(_) => None,
    };
    let (Address::Sentinel(sentinels), Some(asked)) = (server.address(), &place) else {
        let session = reach(server, place.as_ref(), progress).await?;
        if let Some(place) = &place {
            // The server has answered. But if it was paused, it still answers in its former role, and only the other
            // servers have noticed the change.
            server.role.vouch(place).await?;
        }
        return Ok(session);
    };
    let mut session = match reach(server, place.as_ref(), progress).await {
        Ok(session) => session,
        // A failover is in progress. The sentinels will name another server, or this replica will be promoted.
        Err(failure) if failure.reaction == Reaction::Reconnect => return Err(failure.temporary()),
        Err(failure) => return Err(failure),
    };
    // Requests the primary from the sentinels again after the server has answered: a server that was paused during a
    // failover still acts as a primary when it resumes.
    if ask(sentinels).await? != *asked {
        let text = "the sentinels name another primary by now";
        return Err(Failure::new(LockErrorKind::Unavailable, text));
    }
    // Only a session with sentinels has a `place`. The supervisor drops the connection when they name another address.
    session.place = place;
    Ok(session)
}

const NOWHERE: &str = "the name has no address";

/// Connects to the server at `place`, or at the socket of the configuration, and checks that it can hold locks.
async fn reach<R: Role>(
    server: &Shared<R>,
    place: Option<&Endpoint>,
    progress: &Progress,
) -> Result<Session<R>, Failure> {
    let ways = ways(server, place).await?;
    let is_one = ways.len() == 1;
    let attempts = ways.into_iter().map(|way| async move {
        let session = greet(server, open(server, way, progress).await?).await;
        // The next steps send requests to sentinels or other nodes, so a later timeout must not be reported as a
        // missing greeting.
        progress.reached(Progress::CONNECTING);
        match session {
            // The primary is at another address of the name, or one of these servers will be promoted.
            Err(failure) if failure.reaction == Reaction::Reconnect && !is_one => Err(failure.temporary()),
            session => session,
        }
    });
    let reached = race::first(attempts, socket::HEAD_START).await;
    reached.unwrap_or_else(|| Err(Failure::new(LockErrorKind::Unavailable, NOWHERE)))
}

/// Connects and authenticates, without further requests.
pub(crate) async fn open<R: Role>(
    server: &Shared<R>,
    way: Way<'_>,
    progress: &Progress,
) -> Result<Opened, Failure> {
    match way {
        Way::Simulated((host, port)) => {
            let dialling = simulation::dial(host, *port);
            let dialling = dialling.ok_or_else(|| Failure::new(LockErrorKind::Unavailable, NOWHERE))?;
            let stream = dialling.await.map_err(|error| socket::unreachable(&error))?;
            handshake(server, stream).await.map_err(|error| Failure::of_error(&error))
        }
        Way::Tcp(host, address) => {
            let stream = socket::connect_to(address).await?;
            if let Some(tls) = server.tls() {
                progress.reached(Progress::TLS);
                let stream = tls.wrap(stream, host).await?;
                progress.reached(Progress::GREETING);
                return worded(server, stream, Failure::of_error).await;
            }
            progress.reached(Progress::GREETING);
            worded(server, stream, Failure::of_greeting).await
        }
        Way::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| socket::unreachable(&error))?;
            progress.reached(Progress::GREETING);
            worded(server, stream, Failure::of_error).await
        }
    }
}

/// Authenticates with a server that may refuse the connection with a line of text. `of` classifies all other failures.
async fn worded<R: Role, S>(
    server: &Shared<R>,
    stream: S,
    of: fn(&RedisError) -> Failure,
) -> Result<Opened, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Words::new(stream);
    let heard = stream.heard();
    // The driver sends several commands. If the connection ends, the driver reports the end instead of the line of text
    // that the server sent before.
    handshake(server, stream).await.map_err(|error| match heard.line() {
        Some(line) if error.kind() == ErrorKind::Io && line.starts_with('-') => Failure::of_text(&line),
        _ => of(&error),
    })
}

/// Authenticates, and delivers the messages that the server pushes.
async fn handshake<R: Role, S>(server: &Shared<R>, stream: S) -> RedisResult<Opened>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (listeners, poisoned) = (Arc::clone(server.shared_listeners()), Arc::<Poisoned>::default());
    let looking = Arc::clone(&poisoned);
    let push = move |push: PushInfo| {
        // Inspects the message before the listeners are notified, so that a woken waiter sends no request over a
        // connection with wrong replies.
        looking.look(&push);
        messages::deliver(&listeners, &push);
    };
    let (connection, driver) = driver::connect(&server.config.handshake(), stream, push).await?;
    Ok((connection, driver, poisoned))
}

/// Checks that this server can hold locks and that the user has the necessary rights. Also loads the scripts and reads
/// the server's clock. All of this takes one round trip.
async fn greet<R: Role>(
    server: &Shared<R>,
    (connection, driver, poisoned): Opened,
) -> Result<Session<R>, Failure> {
    let keyspace = server.role.keyspace();
    let mut commands = Pipeline::with_capacity(1 + Script::ALL.len() + rights::ANSWERS);
    // All commands take one round trip, because a caller with a deadline may be waiting for this dial.
    commands.cmd("INFO");
    for script in Script::ALL {
        commands.add_command(script.load(keyspace));
    }
    rights::check(&mut commands, keyspace);
    // Sets the name with HELLO, because CLIENT SETNAME needs a separate right. Only operators read the name, so a
    // refusal is ignored.
    let mut name = Cmd::new();
    name.arg("HELLO").arg(3).arg("SETNAME").arg(&server.config.client_name);
    let (mut greeting, mut naming) = (connection.clone(), connection.clone());
    let sent = Clock::Suspend.now();
    let (answers, _) = tokio::join!(
        greeting.send_packed_commands(&commands, 0, commands.len()),
        naming.send_packed_command(&name)
    );
    let answers = answers.map_err(|error| Failure::of_error(&error))?;

    let received = Clock::Suspend.now();
    let loaded = answers.get(1..).unwrap_or_default();
    let checked = loaded.get(Script::ALL.len()..).unwrap_or_default();
    let lacking = rights::examine(answers.first(), loaded.first(), checked, keyspace);
    let info =
        text(answers.first().unwrap_or(&Value::Nil)).map_err(|failure| lacking.clone().unwrap_or(failure))?;
    // Examines the answer to `INFO` first. It contains the reason why a server cannot hold locks, while the other
    // answers only show that a command was refused.
    let facts = probe::examine(info, keyspace)?;
    if let Some(failure) = lacking {
        return Err(failure);
    }
    let scripts = Scripts::of_answers(loaded, keyspace)?;
    let now = server_time(answers.last().unwrap_or(&Value::Nil))?;
    // The warnings come after the probe: they are logged once, and not for a server that fails the probe.
    let is_first = server.warns();
    if is_first {
        warn(server, &facts, connection.clone()).await;
    }
    let greeting = Greeting { connection: &connection, info, now, asked: (sent, received), is_first };
    let session = server.role.admit(server, &greeting).await?;
    // The estimate is computed from the time of sending. So the estimate is never behind the server's clock, and the
    // server never refuses a request too early because of it.
    let clock = ServerClock::new(greeting.now, greeting.asked.0);
    // Keys may have been evicted while no connection existed.
    server.report_evictions(info);
    let live = Connection::new(connection, scripts, clock, session, poisoned);
    Ok(Session { live: Arc::new(live), driver, place: None })
}

/// Logs one warning for each setting of the server that may cause the loss of a lock.
async fn warn<R: Role>(server: &Shared<R>, facts: &probe::Facts, mut connection: MultiplexedConnection) {
    let address = server.address();
    if let Some(policy) = &facts.evicts {
        tracing::warn!(
            server = %address, policy,
            "redis may evict locks when it is short of memory; set maxmemory-policy to noeviction"
        );
    }
    if server.role.keyspace() == Keyspace::Slots
        && setting(&mut connection, "cluster-require-full-coverage").await.as_deref() == Some("yes")
    {
        tracing::warn!(
            server = %address,
            "cluster-require-full-coverage is yes: while one slot has no node, every node refuses to renew its locks"
        );
    }
    if facts.replicated
        && server.config.durability.is_none()
        && setting(&mut connection, "min-replicas-to-write").await.as_deref() == Some("0")
    {
        tracing::warn!(
            server = %address,
            "redis has replicas and min-replicas-to-write is 0: a primary that was replaced goes on granting locks"
        );
    }
}

/// Reads a setting of the server. Returns `None` if the setting cannot be read, for example because the user lacks the
/// right to CONFIG.
async fn setting(connection: &mut MultiplexedConnection, name: &'static str) -> Option<String> {
    let mut command = Cmd::new();
    command.arg("CONFIG").arg("GET").arg(name);
    match command.query_async::<HashMap<String, String>>(connection).await {
        Ok(settings) => settings.into_values().next(),
        Err(error) => {
            tracing::debug!(name, %error, "a setting of redis could not be read");
            None
        }
    }
}
