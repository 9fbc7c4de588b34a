//! The connection that listens for notifications, one for each process.
//!
//! It has a connection of its own, because a pooler that shares its connections delivers none, and because
//! notifications must arrive while a statement runs.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::connection::Connection;
use super::dial::{CHANNEL, Session, open};
use super::shared::Shared;
use super::watch::beat;
use crate::backend::postgres::config::Config;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::remote::{Connector, PerRuntime};
use crate::backoff::Pauses;
use crate::error::{LockErrorKind, Result};
use crate::sync::Mutex;

/// How long a claim that is to be queued waits until its notification can be heard. Without one it waits for a
/// heartbeat.
const PATIENCE: Duration = Duration::from_millis(250);

/// The listening connections: one on the runtime of each manager's background.
#[derive(Debug)]
pub(crate) struct Listening {
    connections: Arc<PerRuntime<ListenConnector>>,
    /// The runtimes of managers that have not needed notifications yet.
    idle: Mutex<Vec<Handle>>,
}

/// Makes and watches listening connections.
#[derive(Debug)]
struct ListenConnector {
    shared: Shared,
    /// The [version](crate::backend::remote::Listeners::version) of the listeners whose channels are listened to; 0 for none.
    covered: watch::Sender<u64>,
    /// Whether the last dial failed: then nobody waits for it.
    failed: AtomicBool,
    /// Wakes the connections when there are more listeners.
    more: Notify,
}

impl Listening {
    /// Listens for the listeners of `store`, whose connections may go elsewhere.
    pub(crate) fn new(config: Config, store: &Shared) -> Result<Self> {
        let mut shared = Shared::new(config, Arc::clone(store.listeners()))?;
        shared.wanted = Arc::clone(&store.wanted);
        let (covered, failed) = (watch::Sender::new(0), AtomicBool::new(false));
        let connector = ListenConnector { shared, covered, failed, more: Notify::new() };
        Ok(Self {
            connections: Arc::new(PerRuntime::idle(Arc::new(connector))),
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Notes the runtime on which a manager's notifications are to be listened for, once it needs them.
    pub(crate) fn attach(&self, background: Option<&Handle>) {
        self.idle.lock().extend(background.cloned());
        self.connector().more.notify_waiters();
    }

    /// Connects, unless that was done.
    pub(crate) fn start(&self) {
        for runtime in std::mem::take(&mut *self.idle.lock()) {
            let connections = Arc::clone(&self.connections);
            // The first caller of a runtime makes its connection, which is then kept up.
            runtime.spawn(async move {
                if let Err(failure) = connections.get().await {
                    tracing::warn!(
                        server = %connections.connector().shared.address(), ?failure,
                        "no notifications from postgres: waiters ask by themselves"
                    );
                }
            });
        }
    }

    /// Waits until the notifications of all listeners can be heard. Returns whether they can.
    pub(crate) async fn heard(&self) -> bool {
        self.start();
        let connector = self.connector();
        let version = connector.shared.listeners().version();
        let mut covered = connector.covered.subscribe();
        if connector.failed.load(Ordering::Acquire) {
            return *covered.borrow() >= version;
        }
        let all = covered.wait_for(|covered| *covered >= version);
        timeout(PATIENCE, all).await.is_ok_and(|all| all.is_ok())
    }

    pub(crate) fn close(&self) {
        self.connections.close();
    }

    fn connector(&self) -> &ListenConnector {
        self.connections.connector()
    }
}

impl Connector for ListenConnector {
    type Connection = Connection;
    type Session = Session;
    type Reaction = Reaction;
    /// Whether a connection was lost before.
    type Legacy = bool;

    const PAUSES: Pauses = Pauses::new(Duration::from_millis(10), Duration::from_millis(1_000));

    fn address(&self) -> impl fmt::Display {
        self.shared.address()
    }

    fn connection(session: &Session) -> &Arc<Connection> {
        &session.live
    }

    fn is_usable(connection: &Connection) -> bool {
        !connection.is_closed()
    }

    async fn dial(&self) -> std::result::Result<Session, Failure> {
        let dialled = self.reach().await;
        self.failed.store(dialled.is_err(), Ordering::Release);
        dialled
    }

    async fn watch(&self, session: &mut Session, lost_before: &mut bool, pauses: &mut Pauses) -> Failure {
        let failure = self.listen(session, lost_before, pauses).await;
        self.covered.send_replace(0);
        failure
    }
}

impl ListenConnector {
    async fn reach(&self) -> std::result::Result<Session, Failure> {
        let session = open(&self.shared).await.map_err(|failure| match failure.reaction {
            Reaction::Reconnect => failure.temporary(),
            Reaction::Report
            | Reaction::Locked
            | Reaction::Unprepare
            | Reaction::WithoutSettings
            | Reaction::LeaveAlone
            | Reaction::Abandon => failure,
        })?;
        if self.shared.is_pooled() {
            let text = "a pooler that shares its connections delivers no notifications, nor does a client that a pool lends; name \
                        the server itself with `?listen=host:port` or `listen_with`, or write `?listen=off`";
            return Err(Failure::new(LockErrorKind::Unsupported, text));
        }
        Ok(session)
    }

    async fn listen(&self, session: &mut Session, lost_before: &mut bool, pauses: &mut Pauses) -> Failure {
        let (mut missed, mut channels) = (0, HashSet::new());
        loop {
            // Made before the version is read, so that no listener is missed.
            let more = self.more.notified();
            let version = self.shared.listeners().version();
            let new: Vec<u128> = self
                .shared
                .listeners()
                .processes()
                .into_iter()
                .filter(|process| channels.insert(*process))
                .collect();
            if !new.is_empty() {
                let listen: String =
                    new.iter().map(|process| format!("LISTEN \"{CHANNEL}{process:032x}\";")).collect();
                match timeout(self.shared.config.timeout, session.live.batch(&listen)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(failure)) => return failure,
                    Err(_) => return Failure::no_answer(self.shared.config.timeout),
                }
                if std::mem::replace(lost_before, true) {
                    // Earlier notifications may be lost.
                    self.shared.listeners().reconnected();
                }
            }
            self.covered.send_if_modified(|covered| std::mem::replace(covered, version) != version);
            tokio::select! {
                biased;
                () = more => {}
                beat = beat(session, self.shared.config.timeout, &mut missed, |_| {}) => match beat {
                    Ok(()) if missed == 0 => pauses.reset(),
                    Ok(()) => {}
                    Err(failure) => return failure,
                },
            }
        }
    }
}
