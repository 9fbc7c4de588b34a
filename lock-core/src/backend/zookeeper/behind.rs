//! Records and checks the node behind which a claim waits.
//!
//! A claim cannot hold its key before that node is deleted. Every two seconds, each waiter requests the key again. In a
//! long queue, such a request only checks whether that one node still exists. If a thousand waiters each read all
//! nodes, they would read a million names, and servers and clients would be too busy to hand the key on.

use std::time::Duration;

use zookeeper_client::Error;

use super::error::Failure;
use super::grants::{Behind, Entry};
use super::line::Line;
use super::places::Site;
use super::session::now;
use crate::backend::{Ask, Attempt, Held};

/// A queue with at most this number of nodes is read at each request.
const SHORT: usize = 100;
/// The time for which a waiter repeats an answer, for each node beyond [`SHORT`]. The answer comes from a read of all
/// nodes, and contains the holder and the number of waiters. All waiters together read the nodes about 100 times a
/// second, in a queue of any length.
const FRESH: Duration = Duration::from_millis(10);
/// The longest time for which an answer is repeated.
const FRESH_AT_MOST: Duration = Duration::from_secs(15);

impl Site<'_> {
    /// Records the answer `held`, and the node behind which the claim waits. The claim is at the index `at` of the
    /// queue.
    pub(super) fn waits(&self, line: &Line, at: usize, held: &Held) -> Result<(), Failure> {
        let behind = line.obstacle(at, self.claim.mode).map(|before| Behind {
            node: before.name.clone(),
            held: held.clone(),
            fresh_until: now().plus(fresh(line.entries().len())),
        });
        self.session.with(|grants| grants.waits(&self.prefix, behind))
    }

    /// Returns the recorded answer if the claim still waits behind the same node. Returns `None` if all nodes must be
    /// read.
    pub(super) async fn waits_still(&self, ask: Ask, entry: &Entry) -> Result<Option<Attempt>, Error> {
        let sent = now();
        let is_fresh = |behind: &&Behind| ask.enqueues() && !behind.fresh_until.is_past(sent);
        let Some(behind) = entry.behind.as_ref().filter(is_fresh) else { return Ok(None) };
        let (before, own) = (self.path(&behind.node), entry.node.as_deref().map(|node| self.path(node)));
        let client = self.session.client();
        let own = async {
            match &own {
                Some(own) => client.check_stat(own).await,
                None => Ok(None),
            }
        };
        let (before, own) = tokio::join!(client.check_stat(&before), own);
        let still = before?.is_some() && own?.is_some();
        Ok(still.then(|| Attempt::Held(Held { queued_at: Some(sent), ..behind.held.clone() })))
    }
}

/// Returns how long the answer to a read of this number of nodes is repeated.
fn fresh(nodes: usize) -> Duration {
    let longer = u32::try_from(nodes.saturating_sub(SHORT)).unwrap_or(u32::MAX);
    FRESH.saturating_mul(longer).min(FRESH_AT_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_queue_the_fewer_reads_for_each_waiter() {
        for (nodes, seconds) in
            [(0, 0.0), (100, 0.0), (101, 0.01), (300, 2.0), (1_600, 15.0), (usize::MAX, 15.0)]
        {
            assert_eq!(fresh(nodes), Duration::from_secs_f64(seconds), "{nodes}");
        }
    }
}
