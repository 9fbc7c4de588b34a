//! The node behind which a claim waits.
//!
//! A claim cannot hold its key before that node is deleted. So in a long queue, a waiter that requests the key again, which it
//! does every two seconds, reads whether that one node exists, and not all nodes of the key. Otherwise a thousand waiters would
//! have a million names read, and servers and clients would be too busy to hand the key on.

use std::time::Duration;

use zookeeper_client::Error;

use super::error::Failure;
use super::grants::{Behind, Entry};
use super::line::Line;
use super::places::Site;
use super::session::now;
use crate::backend::{Ask, Attempt, Held};

/// A queue with no more nodes is read each time.
const SHORT: usize = 100;
/// For each node beyond [`SHORT`], the answer that a waiter got from all nodes, which names the holder and counts the waiters, is
/// repeated for so long. So all nodes are read about 100 times a second, however many wait.
const FRESH: Duration = Duration::from_millis(10);
/// The longest time for which an answer is repeated.
const FRESH_AT_MOST: Duration = Duration::from_secs(15);

impl Site<'_> {
    /// Notes what the claim has seen of the queue, where it waits at the index `at`.
    pub(super) fn waits(&self, line: &Line, at: usize, held: &Held) -> Result<(), Failure> {
        let behind = line.obstacle(at, self.claim.mode).map(|before| Behind {
            node: before.name.clone(),
            held: held.clone(),
            fresh_until: now().plus(fresh(line.entries().len())),
        });
        self.session.with(|grants| grants.waits(&self.prefix, behind))
    }

    /// Answers for a claim that waits behind the same node as before; `None` if all nodes must be read.
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

/// Returns for how long an answer that was read from so many nodes is repeated.
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
