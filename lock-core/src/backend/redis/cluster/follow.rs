//! Sends a call to the node of its key, and follows redirects.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::router::Router;
use crate::backend::redis::command::Server;
use crate::backend::redis::error::Failure;
use crate::backend::redis::error::Redirect;
use crate::backend::redis::slot;
use crate::backoff::Pauses;
use crate::key::Key;

/// The pauses before a call is sent again while its slot is being moved or has no node.
const PAUSES: Pauses = Pauses::new(Duration::from_millis(5), Duration::from_millis(50));
/// The number of MOVED redirects that a call follows without a pause. The call pauses before it follows more redirects,
/// because two nodes may redirect to each other.
const AT_ONCE: u32 = 3;

impl Router {
    /// Runs a call on the node of the key, and repeats the call if the node redirects it. This function has no
    /// deadline. If the caller gives up, `last` contains the last redirect.
    pub(super) async fn call<T, F>(
        &self,
        key: &Key,
        last: &mut Option<Redirect>,
        call: impl Fn(Arc<Server>) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let slot = slot::of_key(key.as_str());
        let (mut pauses, mut moves) = (PAUSES, 0);
        loop {
            // Reads the node of the slot before each repetition, because a redirect or a new view of the Cluster may
            // have assigned the slot to another node.
            let node = self.ready(slot).await?;
            let failure = match call(Arc::clone(&node)).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            // After any other failure, the node may have executed the call, so the call is not repeated here.
            let Some(redirect) = failure.redirect().cloned() else { return Err(failure) };
            // Stores the redirect outside this future, because a deadline may drop the future in the next pause or call.
            match last.insert(redirect) {
                Redirect::Moved { slot, place } => {
                    // Records the new node for all callers, so that their next call for this slot is sent there.
                    self.moved(*slot, &node, place);
                    moves += 1;
                    if moves <= AT_ONCE {
                        continue;
                    }
                }
                // The closure `call` has already tried the other node, if that node can execute the call.
                Redirect::Ask(_) | Redirect::Later => {}
                // Requests new views of the Cluster. If that fails, the call is still repeated until its deadline.
                Redirect::Down => drop(self.look_again().await),
            }
            sleep(pauses.next()).await;
        }
    }
}
