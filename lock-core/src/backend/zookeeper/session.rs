//! One session, and the time until which it is certain.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use zookeeper_client::{Client, Error, EventType, MultiWriteError, SessionState};

use super::error::{Failure, is_doubtful};
use super::grants::Grants;
use super::line::Place;
use super::made::Made;
use super::turns::Turns;
use crate::backend::remote::queue_copy::QueueCopies;
use crate::backend::remote::session_keeper::Session as _;
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;
use crate::sync::Mutex;

/// The share of the session timeout for which a session is certain after a proof of contact.
///
/// The server that ends a session is the leader. A follower reports its clients to the leader with each ping, every
/// half tick, and a timeout has at least two ticks. So the leader may count from a quarter of the timeout, plus one
/// pause between two proofs, before the proof.
const CERTAIN: u32 = 2;
/// The version that matches any node.
const ANY_VERSION: i32 = -1;
/// The pause after an answer that the servers are overloaded.
const THROTTLED: Duration = Duration::from_millis(100);
/// How often the client proves contact within the session timeout.
pub(super) const PROOFS: u32 = 8;

/// A session. A task on the library's own thread drives its client.
pub(super) struct Session {
    client: Client,
    timeout: Duration,
    /// The runtime of the library's own thread.
    pub(super) background: Option<Handle>,
    proof: Mutex<Proof>,
    /// Locked by the claim that requests a sign of life of the majority.
    asking: tokio::sync::Mutex<()>,
    /// `None` once the session is over.
    pub(super) grants: Mutex<Option<Grants>>,
    pub(super) over: watch::Sender<bool>,
    /// The queues whose waiters any change may serve, by directory.
    pub(super) copies: QueueCopies<Place>,
    /// The bytes of the paths that are watched.
    watched: AtomicUsize,
    /// The directories that the session has made.
    pub(super) made: Made,
    /// The directories that claims look for.
    pub(super) turns: Turns,
}

/// The time at which the last request that the leader has answered was sent.
#[derive(Clone, Copy, Debug)]
struct Proof {
    /// For requests that a majority had to accept.
    majority: Moment,
    /// The same for all requests.
    any: Moment,
}

/// The reservation of a watch.
///
/// After each reconnect the client requests its watches again. Beyond 128 KiB of paths it sends several requests, whose
/// answers it cannot distinguish, and no reconnect succeeds any more.
pub(super) struct Watch<'a> {
    session: &'a Session,
    length: usize,
}

impl Watch<'_> {
    /// The most bytes of paths with which a holder is still watched.
    const OF_HOLDERS: usize = 64 * 1024;
    /// The most bytes of paths with which a waiter still watches. Further waiters send a request from time to time.
    pub(super) const OF_WAITERS: usize = 112 * 1024;
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.session.watched.fetch_sub(self.length, Ordering::Relaxed);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.client.session_id()).finish_non_exhaustive()
    }
}

/// The clock of all leases in a remote store.
pub(super) fn now() -> Moment {
    Clock::Suspend.now()
}

impl Session {
    /// Makes the value of a session that was requested at `sent`.
    pub(super) fn new(client: Client, sent: Moment, background: Option<Handle>) -> Self {
        let timeout = client.session_timeout();
        let proof = Mutex::new(Proof { majority: sent, any: sent });
        let grants = Mutex::new(Some(Grants::default()));
        Self {
            client,
            timeout,
            background,
            proof,
            asking: tokio::sync::Mutex::default(),
            grants,
            over: watch::Sender::new(false),
            copies: QueueCopies::default(),
            watched: AtomicUsize::new(0),
            made: Made::default(),
            turns: Turns::default(),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Notes that a majority accepted a request that was sent at `sent`, a write. A read proves nothing: a server that is
    /// cut off from the leader answers it for a while.
    pub(super) fn prove(&self, sent: Moment) {
        let mut proof = self.proof.lock();
        proof.majority = later(proof.majority, sent);
        proof.any = later(proof.any, sent);
    }

    /// Notes that the leader answered a `sync` that was sent at `sent`. The leader answers a `sync` alone. If it is cut
    /// off from the majority, it does so until it notices, which may take longer than a session (ZOOKEEPER-2136). So
    /// this only shows that a server answers, and no grant relies on it.
    pub(super) fn heard_from_leader(&self, sent: Moment) {
        let mut proof = self.proof.lock();
        proof.any = later(proof.any, sent);
    }

    /// Returns for how long from `at` the session is certain, for grants.
    pub(super) fn certain(&self, at: Moment) -> Duration {
        self.proof.lock().majority.plus(self.timeout / CERTAIN).remaining(at)
    }

    /// Returns whether due proofs are missing.
    pub(super) fn is_silent(&self, at: Moment) -> bool {
        at.since(self.proof.lock().any) > self.timeout * 3 / PROOFS
    }

    /// Requests a sign of life: while there are grants, of the majority.
    pub(super) async fn contact(&self, base: &str) -> Result<(), Error> {
        if self.with(|grants| grants.has_holder()).unwrap_or(false) {
            return self.check(base).await;
        }
        let sent = now();
        self.client.sync("/").await?;
        self.heard_from_leader(sent);
        Ok(())
    }

    /// Requests a sign of life of the majority, unless, as for a holder, there was one in the last eighth of the
    /// timeout. This is for a grant that was found by a read: a waiter writes nothing while it waits.
    pub(super) async fn prove_recently(&self, base: &str) -> Result<(), Error> {
        let is_old = || {
            let majority = self.proof.lock().majority;
            now().since(majority) > self.timeout / PROOFS
        };
        if !is_old() {
            return Ok(());
        }
        // Many readers may find their turn at once, after a writer. One request serves all.
        let _asking = self.asking.lock().await;
        if is_old() { self.check(base).await } else { Ok(()) }
    }

    /// Has a majority accept a transaction that changes nothing.
    async fn check(&self, base: &str) -> Result<(), Error> {
        let sent = now();
        check(&self.client, base).await?;
        self.prove(sent);
        Ok(())
    }

    /// Reserves a watch of `path`, unless the watches of this session would have more than `most` bytes of paths.
    pub(super) fn watch(&self, path: &str, most: usize) -> Option<Watch<'_>> {
        let length = path.len() + size_of::<u32>();
        let add = |all: usize| Some(all + length).filter(|all| *all <= most);
        let added = self.watched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Watch { session: self, length })
    }

    /// Waits until a request whose answer failed with the ambiguous `error` can be repeated.
    pub(super) async fn recovers(&self, error: &Error) -> Result<(), Failure> {
        if *error == Error::Throttled {
            tokio::time::sleep(THROTTLED).await;
        }
        // The client notices a lost connection before it changes its state.
        tokio::task::yield_now().await;
        self.connected().await
    }

    /// Waits until a server is connected.
    pub(super) async fn connected(&self) -> Result<(), Failure> {
        let mut state = self.client.state_watcher();
        let mut current = state.state();
        while current != SessionState::SyncConnected {
            if current.is_terminated() || self.is_over() {
                return Err(ended());
            }
            current = tokio::select! {
                next = state.changed() => next,
                () = self.ends() => return Err(ended()),
            };
        }
        Ok(())
    }

    /// Waits until the node at `path` is deleted. Returns whether it was deleted: a session that is over sends no
    /// notification, and one with too many watches does not watch it.
    pub(super) async fn removed(&self, path: &str) -> bool {
        let Some(_watch) = self.watch(path, Watch::OF_HOLDERS) else { return false };
        loop {
            let watching = async {
                let (stat, watcher) = self.client.check_and_watch_stat(path).await?;
                match stat {
                    None => Ok(EventType::NodeDeleted),
                    Some(_) => Ok(watcher.changed().await.event_type),
                }
            };
            let event = tokio::select! {
                event = watching => event,
                () = self.ends() => return false,
            };
            match event {
                Ok(EventType::NodeDeleted) => return true,
                // The holder of a node writes it for a fencing token.
                Ok(EventType::NodeDataChanged) => {}
                Ok(_) => return false,
                Err(error) if is_doubtful(&error) => {
                    if self.recovers(&error).await.is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
    }

    /// Runs `change` on the session's entries.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Grants) -> T) -> Result<T, Failure> {
        self.grants.lock().as_mut().map(change).ok_or_else(ended)
    }

    /// Completes when the session is over.
    pub(super) async fn ends(&self) {
        // The sender lives as long as `self`.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

/// Has a majority accept a transaction that changes nothing. It needs the permission to read `base`.
pub(super) async fn check(client: &Client, base: &str) -> Result<(), Error> {
    let mut checks = client.new_multi_writer();
    checks.add_check_version(base, ANY_VERSION)?;
    match checks.commit().await {
        Ok(_) => Ok(()),
        Err(MultiWriteError::RequestFailed { source } | MultiWriteError::OperationFailed { source, .. }) => {
            Err(source)
        }
    }
}

fn later(one: Moment, other: Moment) -> Moment {
    if one.is_past(other) { other } else { one }
}

/// The failure of a request in a session that is over. The error is ambiguous: its node may live until the server ends
/// the session too.
pub(super) fn ended() -> Failure {
    Failure::new(LockErrorKind::Unavailable, "the session ended while the request was under way").in_doubt()
}
