//! Starts the session of a manager, and keeps it alive.

use std::sync::Arc;

use tokio::time::{sleep, timeout};

use super::grants::Grants;
use super::session::{PROOFS, Session, now};
use crate::backend::postgres::error::{Failure, Reaction};
use crate::backend::postgres::link::Shared;
use crate::backend::remote::session_keeper::{self, LOOK, SessionKeeper};
use crate::owner::Owner;
use crate::sync::survives;

impl session_keeper::Session for Session {
    type Servers = Arc<Shared>;
    type Reaction = Reaction;

    const NOT_YET: &'static str = "no server is connected; is it up?";

    async fn dial(servers: &Arc<Shared>) -> Result<Self, Failure> {
        Self::begin(servers, servers.config.dial_timeout).await
    }

    /// Sends signs of life, until the session must end.
    async fn keep(&self, _keeper: &SessionKeeper<Self>) {
        let every = self.timeout() / PROOFS;
        loop {
            tokio::select! {
                // The connection has ended, or a statement that frees a lock has failed.
                () = self.lost() => return,
                () = self.ends() => return,
                proved = timeout(self.timeout() / 2, self.prove()) => {
                    // The answer came from another server process than the one that holds the locks.
                    if matches!(proved, Ok(Ok(false))) {
                        return;
                    }
                }
            }
            // The server may have ended the session, and granted the keys to other clients.
            if self.certain(now()).is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(every.min(LOOK)) => {}
                () = self.lost() => return,
                () = self.ends() => return,
            }
        }
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    fn end(&self) -> Vec<Owner> {
        let grants = self.grants.lock().take();
        survives(|| self.over.send_replace(true));
        grants.map(Grants::into_held).unwrap_or_default()
    }

    /// Closes the connection. Requests in progress fail.
    async fn close(&self) {
        *self.link.lock().await = None;
    }
}
