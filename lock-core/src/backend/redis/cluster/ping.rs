//! The ping of a Cluster, which pings each node that has slots.

use tokio::time::timeout;

use super::router::Router;
use crate::backend::Ping;
use crate::backend::redis::link::PING_KEY;
use crate::backend::redis::slot;
use crate::backend::remote::join_all;
use crate::error::{LockError, LockErrorKind, Result};

impl Router {
    /// Pings each node with a key of one of its slots. Succeeds if more than half of the nodes work, because such a
    /// majority can promote replicas of the other nodes.
    pub(crate) async fn ping(&self) -> Result<Ping> {
        let (nodes, without_node) = self.nodes_and_gaps();
        let pings = nodes.iter().map(|(slot, node)| async move {
            let answer = node.ping(&slot::tagged(PING_KEY, *slot)).await;
            (node.shared().address().to_string(), answer)
        });
        let answers = join_all(pings).await;
        if without_node > 0 || answers.iter().any(|(_, answer)| answer.is_err()) {
            // Another node may have the slots by now. Requests the list of nodes, for the next ping.
            let _ = timeout(self.config().timeout, self.look_again()).await;
        }
        let merged = Ping::of_most(&answers).ok_or_else(|| {
            let failed: Vec<_> = answers.iter().filter_map(|(_, answer)| answer.as_ref().err()).collect();
            let reasons: Vec<_> = failed.iter().map(|error| error.detail()).collect();
            let detail = format!(
                "{} of {} nodes of the Cluster at {} do not serve, and a majority must: {}",
                failed.len(),
                answers.len(),
                self.config().address,
                reasons.join("; ")
            );
            LockError::new(LockErrorKind::Unavailable, detail)
        })?;
        Ok(match without_node {
            0 => merged,
            slots => {
                merged.with_degraded(format!("no node has {slots} of the slots: their keys cannot be locked"))
            }
        })
    }
}
