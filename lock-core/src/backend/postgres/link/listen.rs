//! Maintains the connection that listens for notifications. Each store has one such connection.
//!
//! The connection is separate from all others for two reasons. A pooler that shares its connections delivers no
//! notifications, so this connection may bypass the pooler. Notifications must also arrive while a statement runs.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::Connection;
use super::dial::{Goal, dial};
use super::session::Session;
use super::shared::Shared;
use super::watch::beat;
use crate::backend::Listener;
use crate::backend::postgres::config::Config;
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::postgres::sql::CHANNEL;
use crate::backend::remote::{Connector, PerRuntime};
use crate::backoff::Pauses;
use crate::error::{LockErrorKind, Result};
use crate::sync::{Mutex, Notify};

/// How long a claim that will be queued waits for the notifications to start. Without notifications, the claim relies
/// on its heartbeats.
const PATIENCE: Duration = Duration::from_millis(250);

/// The listening connection, on the background runtime of one manager. When that runtime ends, the connection moves to
/// the runtime of the next manager.
#[derive(Debug)]
pub(crate) struct Listening {
    connections: Arc<PerRuntime<ListenConnector>>,
    managers: Arc<Managers>,
}

/// The managers whose runtimes may run the connection.
#[derive(Debug, Default)]
struct Managers(Mutex<Attached>);

#[derive(Debug, Default)]
struct Attached {
    managers: Vec<(Weak<dyn Listener>, Handle)>,
    /// Whether one of the managers runs the connection.
    listens: bool,
}

/// Creates and watches the listening connection.
#[derive(Debug)]
struct ListenConnector {
    shared: Shared,
    /// The [version](crate::backend::remote::Listeners::version) of the listeners to whose channels the connection
    /// listens. The version is 0 if the connection listens to no channel.
    covered: watch::Sender<u64>,
    /// Whether the last dial failed. If so, no call waits for the next dial.
    failed: AtomicBool,
    /// Whether an earlier connection has listened, on this or another runtime.
    lost_before: AtomicBool,
    /// Wakes the connection when a listener is added.
    more: Notify,
}

impl Listening {
    /// Creates the state of the listening connection of `store`, without connecting. `config` may name another server
    /// than the settings of `store`.
    pub(crate) fn new(config: Config, store: &Shared) -> Result<Self> {
        let shared = Shared::new(config, Arc::clone(store.listeners()))?;
        let covered = watch::Sender::new(0);
        let (failed, lost_before) = (AtomicBool::new(false), AtomicBool::new(false));
        let connector = ListenConnector { shared, covered, failed, lost_before, more: Notify::new() };
        Ok(Self { connections: Arc::new(PerRuntime::idle(Arc::new(connector))), managers: Arc::default() })
    }

    /// Records the runtime of a manager. The first manager that needs notifications creates the connection.
    pub(crate) fn attach(&self, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        if let Some(background) = background {
            let mut attached = self.managers.0.lock();
            attached.managers.retain(|(listener, _)| listener.strong_count() > 0);
            attached.managers.push((listener, background.clone()));
        }
        self.connector().more.notify_waiters();
    }

    /// Starts the connection, if it was not started yet.
    pub(crate) fn start(&self) {
        self.managers.start(&self.connections);
    }

    /// Waits a moment until notifications for all listeners arrive. Returns whether they arrive.
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

    /// Returns whether the last attempt to connect failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.connector().failed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.connections.close();
    }

    fn connector(&self) -> &ListenConnector {
        self.connections.connector()
    }
}

impl Managers {
    /// If no manager runs the connection, creates it on the runtime of the first living manager.
    fn start(self: &Arc<Self>, connections: &Arc<PerRuntime<ListenConnector>>) {
        let runtime = {
            let mut attached = self.0.lock();
            if attached.listens {
                return;
            }
            attached.managers.retain(|(listener, _)| listener.strong_count() > 0);
            let Some((_, runtime)) = attached.managers.first() else { return };
            let runtime = runtime.clone();
            attached.listens = true;
            runtime
        };
        let (managers, connections) = (Arc::clone(self), Arc::downgrade(connections));
        let turn = Turn { managers, connections, runtime: runtime.id() };
        // The first `get` on a runtime creates the connection there, and `connections` then keeps it up. The task ends
        // with its runtime, and drops `turn`.
        runtime.spawn(async move {
            turn.connect().await;
            std::future::pending::<()>().await;
        });
    }
}

/// The turn of one manager to run the connection. On drop, the next manager gets its turn.
struct Turn {
    managers: Arc<Managers>,
    /// The reference is weak, so that the connection ends with the store.
    connections: Weak<PerRuntime<ListenConnector>>,
    runtime: Id,
}

impl Turn {
    async fn connect(&self) {
        let Some(connections) = self.connections.upgrade() else { return };
        if let Err(failure) = connections.get().await {
            tracing::warn!(
                server = %connections.connector().shared.address(), ?failure,
                "no notifications from postgres: waiters ask by themselves"
            );
        }
    }
}

/// Runs when the runtime or the store has ended.
impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut attached = self.managers.0.lock();
            attached.listens = false;
            // The manager is removed here, because it may exist a little longer than its runtime.
            attached.managers.retain(|(_, runtime)| runtime.id() != self.runtime);
        }
        if let Some(connections) = self.connections.upgrade() {
            self.managers.start(&connections);
        }
    }
}

impl Connector for ListenConnector {
    type Connection = Connection;
    type Session = Session;
    type Reaction = Reaction;
    type Legacy = ();

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

    fn dials(&self) {
        self.shared.listeners().dials();
    }

    fn dial_limits(&self) -> (Duration, Duration) {
        (self.shared.config.dial_timeout, self.shared.config.connect_timeout)
    }

    async fn dial(&self, limit: Duration) -> std::result::Result<Session, Failure> {
        let dialled = self.reach(limit).await;
        self.failed.store(dialled.is_err(), Ordering::Release);
        dialled
    }

    async fn watch(&self, session: &mut Session, _legacy: &mut (), pauses: &mut Pauses) -> Failure {
        let _ends = Ends(&self.covered);
        self.listen(session, pauses).await
    }
}

/// Records on drop that no channel is listened to, because the runtime of the connection may have ended.
struct Ends<'a>(&'a watch::Sender<u64>);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.send_replace(0);
    }
}

impl ListenConnector {
    async fn reach(&self, limit: Duration) -> std::result::Result<Session, Failure> {
        let session = match dial(&self.shared, Goal::Session, limit).await {
            Err(failure) if failure.reaction == Reaction::Reconnect => return Err(failure.temporary()),
            dialled => dialled?,
        };
        if self.shared.is_pooled() {
            let text = "a pooler that shares its connections delivers no notifications, nor does a client that a pool lends; name \
                        the server itself with `?listen=host:port` or `listen_with`, write `?pooling=session` for a pooler in \
                        that mode, or write `?listen=off`";
            return Err(Failure::new(LockErrorKind::Unsupported, text));
        }
        Ok(session)
    }

    async fn listen(&self, session: &mut Session, pauses: &mut Pauses) -> Failure {
        let (mut missed, mut channels) = (0, HashSet::new());
        loop {
            // This future is created before the version is read, so that no new listener is missed.
            let more = self.more.notified();
            let version = self.shared.listeners().version();
            let wanted: HashSet<u128> = self.shared.listeners().processes().into_iter().collect();
            let changes = changes(&channels, &wanted);
            if !changes.is_empty() {
                match timeout(self.shared.config.timeout, session.live.batch(&changes)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(failure)) => return failure,
                    Err(_) => return Failure::no_answer(self.shared.config.timeout),
                }
                let begun = wanted.difference(&channels).next().is_some();
                channels = wanted;
                if begun && self.lost_before.swap(true, Ordering::AcqRel) {
                    // Notifications that were sent before this connection listened may be lost.
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

/// Returns the statements that make the session listen to the channels of `wanted`, and to no others.
fn changes(channels: &HashSet<u128>, wanted: &HashSet<u128>) -> String {
    let begun = wanted.difference(channels).map(|process| format!("LISTEN \"{CHANNEL}{process:032x}\";"));
    let ended = channels.difference(wanted).map(|process| format!("UNLISTEN \"{CHANNEL}{process:032x}\";"));
    begun.chain(ended).collect()
}
