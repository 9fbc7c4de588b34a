//! Pings each node of a quorum.

use super::backend::Inner;
use crate::backend::remote::join_all;
use crate::backend::{Backend, Ping};
use crate::error::Result;

impl<B: Backend> Inner<B> {
    /// Pings each node, including suspect nodes. The ping of a node that does not vote fails.
    pub(super) async fn ping(&self) -> Result<Ping> {
        let pings =
            self.nodes.iter().map(|node| async { (node.name().to_owned(), node.backend.ping().await) });
        let answers = join_all(pings).await;
        if let Some(merged) = Ping::of_most(&answers) {
            return Ok(merged);
        }
        Err(self.no_majority("answer the ping", answers.into_iter().map(|(_, answer)| Some(answer))))
    }
}
