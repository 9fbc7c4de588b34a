//! Tracks one session, and the time for which it certainly lives.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use zookeeper_client::{Client, Error, EventType, SessionState};

use super::error::{Failure, Reaction, source};
use super::grants::Grants;
use super::line::Place;
use super::made::Made;
use super::turns::Turns;
use crate::backend::remote::queue_copy::QueueCopies;
use crate::backend::remote::session_keeper::Session as _;
use crate::clock::{Clock, Moment};
use crate::error::LockErrorKind;
use crate::sync::Mutex;

/// After a proof of contact, a session certainly lives for its timeout divided by this number.
///
/// The leader ends sessions. A follower reports its clients to the leader with each ping, every half tick, and a
/// timeout has at least two ticks. So the leader may start the timeout before the proof, by up to a quarter of the
/// timeout plus one pause between two proofs.
const CERTAIN: u32 = 2;
/// The version that matches any node.
const ANY_VERSION: i32 = -1;
/// The pause after an answer that the servers are overloaded.
const THROTTLED: Duration = Duration::from_millis(100);
/// The number of proofs of contact within the session timeout.
pub(super) const PROOFS: u32 = 8;

/// A session. A task on the library's own thread drives its client.
pub(super) struct Session {
    client: Client,
    timeout: Duration,
    /// The runtime of the library's own thread.
    pub(super) background: Handle,
    proof: Mutex<Proof>,
    /// Locked by the claim that requests a proof of contact with the majority.
    asking: tokio::sync::Mutex<()>,
    /// The claims of the session; `None` after the session is over.
    pub(super) grants: Mutex<Option<Grants>>,
    pub(super) over: watch::Sender<bool>,
    /// The copies of the queues of semaphores, by directory. In these queues, any change may serve a waiter.
    pub(super) copies: QueueCopies<Place>,
    /// The size of all watched paths, in bytes.
    watched: AtomicUsize,
    /// The directories that the session has created.
    pub(super) made: Made,
    /// The order of the claims at keys whose directories may be missing.
    pub(super) turns: Turns,
}

/// The proofs of contact with the servers: the times at which the last answered requests were sent.
#[derive(Clone, Copy, Debug)]
struct Proof {
    /// When the last request was sent that a majority had to accept.
    majority: Moment,
    /// When the last request was sent that the leader answered, with or without a majority.
    any: Moment,
}

/// A reserved watch. Its path counts for the limits until this value is dropped.
///
/// After each reconnect the client requests its watches again. With more than 128 KiB of paths, the client sends
/// several requests, and cannot distinguish their answers. Then no reconnect succeeds.
pub(super) struct Watch<'a> {
    session: &'a Session,
    length: usize,
}

impl Watch<'_> {
    /// Another holder is watched only if all watched paths then have at most this size, in bytes.
    const OF_HOLDERS: usize = 64 * 1024;
    /// Another waiter gets a watch only if all watched paths then have at most this size, in bytes. A waiter without a
    /// watch sends a request from time to time.
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

/// Returns the time by the clock of leases in remote stores.
pub(super) fn now() -> Moment {
    Clock::Suspend.now()
}

impl Session {
    /// Returns the state of a session that was requested at `sent`.
    pub(super) fn new(client: Client, sent: Moment) -> Self {
        let timeout = client.session_timeout();
        let proof = Mutex::new(Proof { majority: sent, any: sent });
        let grants = Mutex::new(Some(Grants::default()));
        Self {
            client,
            timeout,
            // The keeper dials on the library's own thread.
            background: Handle::current(),
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

    /// Records that a majority accepted a write that was sent at `sent`. A read proves nothing, because a server that
    /// is cut off from the leader still answers reads for a while.
    pub(super) fn prove(&self, sent: Moment) {
        let mut proof = self.proof.lock();
        proof.majority = later(proof.majority, sent);
        proof.any = later(proof.any, sent);
    }

    /// Records that the leader answered a `sync` that was sent at `sent`. The leader answers a `sync` without the
    /// majority. A leader that is cut off from the majority continues to answer until it notices this, which may take
    /// longer than a session (ZOOKEEPER-2136). So a `sync` only shows that a server answers, and no grant relies on it.
    pub(super) fn heard_from_leader(&self, sent: Moment) {
        let mut proof = self.proof.lock();
        proof.any = later(proof.any, sent);
    }

    /// Returns how long the session certainly lives, counted from `at`. Grants rely on this time.
    pub(super) fn certain(&self, at: Moment) -> Duration {
        self.proof.lock().majority.plus(self.timeout / CERTAIN).remaining(at)
    }

    /// Returns whether no proof of contact has arrived for more than three eighths of the timeout.
    pub(super) fn is_silent(&self, at: Moment) -> bool {
        at.since(self.proof.lock().any) > self.timeout * 3 / PROOFS
    }

    /// Requests a proof of contact. While there are grants, this is a proof of contact with the majority.
    pub(super) async fn contact(&self, base: &str) -> Result<(), Error> {
        if self.with(|grants| grants.has_holder()).unwrap_or(false) {
            return self.check(base).await;
        }
        let sent = now();
        self.client.sync("/").await?;
        self.heard_from_leader(sent);
        Ok(())
    }

    /// Requests a proof of contact with the majority if the last such proof is older than an eighth of the timeout. A
    /// grant that was found by a read needs this, because a waiter writes nothing while it waits.
    pub(super) async fn prove_recently(&self, base: &str) -> Result<(), Error> {
        let is_old = || {
            let majority = self.proof.lock().majority;
            now().since(majority) > self.timeout / PROOFS
        };
        if !is_old() {
            return Ok(());
        }
        // After a writer has released, many readers may find their turn at once. One request serves all of them.
        let _asking = self.asking.lock().await;
        if is_old() { self.check(base).await } else { Ok(()) }
    }

    /// Sends a transaction that changes nothing, and that a majority must accept. Records the proof of contact.
    async fn check(&self, base: &str) -> Result<(), Error> {
        let sent = now();
        check(&self.client, base).await?;
        self.prove(sent);
        Ok(())
    }

    /// Reserves a watch of `path`. Returns `None` if the paths of all watches of this session would exceed `most`
    /// bytes.
    pub(super) fn watch(&self, path: &str, most: usize) -> Option<Watch<'_>> {
        let length = path.len() + size_of::<u32>();
        let add = |all: usize| Some(all + length).filter(|all| *all <= most);
        let added = self.watched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        added.ok().map(|_| Watch { session: self, length })
    }

    /// Waits until the failed request can be repeated. Returns the failure if it cannot.
    pub(super) async fn recover(&self, failure: Failure) -> Result<(), Failure> {
        match failure.reaction {
            Reaction::Report => return Err(failure),
            Reaction::Repeat => {}
            Reaction::RepeatLater => tokio::time::sleep(THROTTLED).await,
        }
        // The client notices a lost connection before it changes its state, so `yield_now` lets the client change its
        // state first.
        tokio::task::yield_now().await;
        self.connected().await
    }

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

    /// Waits until the node at `path` is deleted. Returns `false` if the session ends first, if it already has too many
    /// watches, or if the watch fails.
    pub(super) async fn removed(&self, path: &str) -> bool {
        let Some(_watch) = self.watch(path, Watch::OF_HOLDERS) else { return false };
        loop {
            let watching = async {
                let (stat, watcher) = self.client.check_and_watch_stat(path).await?;
                match stat {
                    None => Ok::<_, Error>(EventType::NodeDeleted),
                    Some(_) => Ok(watcher.changed().await.event_type),
                }
            };
            let event = tokio::select! {
                event = watching => event,
                () = self.ends() => return false,
            };
            match event {
                Ok(EventType::NodeDeleted) => return true,
                // The holder writes its node to make a fencing token.
                Ok(EventType::NodeDataChanged) => {}
                Ok(_) => return false,
                Err(error) => {
                    if self.recover(error.into()).await.is_err() {
                        return false;
                    }
                }
            }
        }
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Grants) -> T) -> Result<T, Failure> {
        self.grants.lock().as_mut().map(change).ok_or_else(ended)
    }

    pub(super) async fn ends(&self) {
        // The sender lives as long as `self`.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

/// Sends a transaction that changes nothing, and that a majority must accept. This needs the permission to read `base`.
pub(super) async fn check(client: &Client, base: &str) -> Result<(), Error> {
    let mut checks = client.new_multi_writer();
    checks.add_check_version(base, ANY_VERSION)?;
    checks.commit().await.map(drop).map_err(source)
}

fn later(one: Moment, other: Moment) -> Moment {
    if one.is_past(other) { other } else { one }
}

/// Returns the failure of a request in a session that is over. The failure is ambiguous, because the node may live
/// until the servers also end the session.
pub(super) fn ended() -> Failure {
    Failure::new(LockErrorKind::Unavailable, "the session ended while the request was under way").in_doubt()
}
