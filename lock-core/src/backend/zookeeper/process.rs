//! Starts the session of a manager, and sends its keep-alives.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::SessionState;

use super::config::Config;
use super::connect::silent;
use super::error::{Failure, Reaction, is_doubtful};
use super::grants::Grants;
use super::session::{PROOFS, Session, now};
use crate::backend::NodeAnswer;
use crate::backend::remote::session_keeper::{self, Keepers, LOOK, SessionKeeper};
use crate::error::{LockErrorKind, LossReason};
use crate::owner::Owner;
use crate::sync::survives;

/// An attached manager, which has one session at a time.
pub(super) type Process = SessionKeeper<Session>;

pub(super) type Processes = Keepers<Session>;

/// The servers, and the promise of the store about their sessions.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) config: Arc<Config>,
    /// The session timeout that the store promises in its capability.
    pub(super) promised: Duration,
}

impl session_keeper::Session for Session {
    type Servers = Servers;
    type Reaction = Reaction;

    const NOT_YET: &'static str = "no server is connected; are the servers up?";

    async fn dial(servers: &Servers) -> Result<Self, Failure> {
        let sent = now();
        let (config, promised) = (&servers.config, servers.promised);
        let within = config.dial_timeout;
        let connecting = async {
            match config.connect_again(promised).await {
                Ok(client) => Ok(client),
                Err(error) => Err(config.refusal(&error, within).await),
            }
        };
        let client = timeout(within, connecting).await.unwrap_or_else(|_| Err(silent(within)));
        let session = Self::new(client.map_err(Failure::before_any_request)?, sent);
        if session.timeout() > promised {
            let now = session.timeout();
            let text =
                format!("the servers give sessions of {now:?} now, and gave {promised:?}: connect anew");
            return Err(Failure::new(LockErrorKind::Unavailable, text).permanent());
        }
        Ok(session)
    }

    async fn keep(&self, process: &Process) {
        tokio::select! {
            () = keep(process, self) => {}
            () = self.tidies() => {}
        }
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    fn end(&self) -> Vec<Owner> {
        let grants = self.grants.lock().take();
        survives(|| self.over.send_replace(true));
        grants.map(Grants::into_granted).unwrap_or_default()
    }
}

impl Process {
    /// Returns the session when it is connected. This function sets no deadline.
    pub(super) async fn ready(&self) -> Result<Arc<Session>, Failure> {
        loop {
            let session = self.session().await?;
            if session.connected().await.is_ok() {
                return Ok(session);
            }
            // This session is over, or its end is about to be noticed.
            session.ends().await;
        }
    }

    /// Watches the node of a holder, if it is not watched yet. If another process deletes the node, the holder is
    /// notified. Also writes the time of the grant into the node, for operators. This happens at the first renewal, so
    /// a lock that is released earlier costs no write.
    pub(super) fn watch(self: &Arc<Self>, session: &Arc<Session>, prefix: &str, directory: &str) {
        let Ok(Some((node, untold))) = session.with(|grants| grants.watch(prefix)) else { return };
        let (process, session) = (Arc::clone(self), Arc::clone(session));
        let (prefix, path) = (prefix.to_owned(), format!("{directory}/{node}"));
        let background = session.background.clone();
        background.spawn(async move {
            if let Some(data) = untold {
                let sent = now();
                match session.client().set_data(&path, data.as_bytes(), None).await {
                    Ok(_) => {
                        session.prove(sent);
                        let _ = session.with(|grants| grants.told(&prefix, &node));
                    }
                    // The next renewal writes the time.
                    Err(error) if is_doubtful(&error) => {
                        let _ = session.with(|grants| grants.unwatched(&path));
                        return;
                    }
                    // If the node is gone, the watch below reports this. Otherwise this user may not write the node.
                    Err(_) => {}
                }
            }
            if session.removed(&path).await {
                process.lost(&session, &path, LossReason::Taken);
            } else {
                // The next renewal tries again.
                let _ = session.with(|grants| grants.unwatched(&path));
            }
        });
    }

    /// Reports the grant with the node at `path` as lost, if there is such a grant.
    pub(super) fn lost(&self, session: &Session, path: &str, reason: LossReason) {
        if let Ok(Some(owner)) = session.with(|grants| grants.removed(path)) {
            self.tell(|listener| listener.lost(owner, reason));
        }
    }
}

/// Keeps the session alive, and returns when it is over.
async fn keep(process: &Process, session: &Session) {
    let every = session.timeout() / PROOFS;
    // The client does not report which server answers for the ensemble.
    let node = process.servers.config.hosts();
    let mut states = session.client().state_watcher();
    let mut lost = false;
    loop {
        match states.state() {
            SessionState::SyncConnected => {
                // A proof counts from the sending of its request, so a late answer is also useful. Without an answer,
                // the next try follows when the last proof has expired.
                let asked = now();
                let contact = timeout(session.timeout() / 2, session.contact(&process.servers.config.base));
                let contact = tokio::select! {
                    contact = contact => contact,
                    // If the connection is lost, the request fails, but the client may notice this late.
                    _ = states.changed() => continue,
                };
                if let Ok(Ok(())) = contact {
                    let round_trip = now().since(asked);
                    process.tell(|listener| listener.node_answered(&NodeAnswer::new(&node, round_trip)));
                    if std::mem::take(&mut lost) {
                        process.tell(|listener| listener.reconnected());
                    }
                }
            }
            SessionState::Disconnected | SessionState::ConnectedReadOnly => {
                // The client redials on its own.
                process.tell(|listener| listener.dials());
                lost = true;
            }
            SessionState::AuthFailed | SessionState::Expired | SessionState::Closed => return,
        }
        let _ = timeout(every.min(LOOK), states.changed()).await;
    }
}
