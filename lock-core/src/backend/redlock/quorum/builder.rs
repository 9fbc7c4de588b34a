//! Builds a quorum.

use std::time::Duration;

use super::backend::Quorum;
use super::votes::max_failures;
use crate::backend::Backend;
use crate::error::{LockError, LockErrorKind, Result};

/// Builds a [`Quorum`] with names for its nodes and a node timeout.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::backend::memory::Memory;
/// use lock_core::backend::redlock::quorum::Quorum;
///
/// let nodes = [("eu", Memory::new()), ("us", Memory::new()), ("ap", Memory::new())];
/// let (names, nodes): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
/// let quorum = Quorum::builder(nodes).names(names).node_timeout(Duration::from_millis(200)).build()?;
/// assert_eq!(quorum.majority(), 2);
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct QuorumBuilder<B> {
    nodes: Vec<B>,
    names: Vec<String>,
    node_timeout: Option<Duration>,
}

// These functions are here, and not next to the type, so that the quorum does not depend on its builder.
impl<B: Backend> Quorum<B> {
    /// Creates a quorum of `nodes`. The nodes must not share a machine, a disk or a replication link.
    ///
    /// All processes that exclude each other must use the same nodes. The number of nodes must be odd. Choose 3 or 5:
    /// more nodes cost more and are seldom useful. A single node is allowed for tests.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) if there are no nodes or an even number of nodes.
    pub fn new(nodes: Vec<B>) -> Result<Self> {
        Self::builder(nodes).build()
    }

    /// Returns a builder, which can set the names of the nodes and a node timeout.
    pub fn builder(nodes: Vec<B>) -> QuorumBuilder<B> {
        QuorumBuilder::new(nodes)
    }
}

impl<B: Backend> QuorumBuilder<B> {
    pub(super) fn new(nodes: Vec<B>) -> Self {
        Self { nodes, names: Vec::new(), node_timeout: None }
    }

    /// Names the nodes in their order, for logs and errors. A name must not contain a password. Default: the numbers of
    /// the nodes, starting with 1.
    pub fn names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how long an attempt waits for a node. The default is a tenth of the ttl, but at least 10 ms. This default
    /// is at most 50 ms if a majority has answered, and at most 1 s otherwise.
    ///
    /// A configured timeout replaces both limits, but at most a fifth of the ttl is used. Choose a timeout that is long
    /// enough even when the nodes are slow. A grant that arrives after a failed attempt is released. Renewals wait for
    /// a sixth of the ttl, but at most 1 s or the node timeout, whichever is longer.
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = Some(node_timeout);
        self
    }

    /// Builds the quorum.
    ///
    /// # Errors
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) for no nodes, an even number of nodes, a wrong number of
    /// names, or a timeout of 0.
    pub fn build(self) -> Result<Quorum<B>> {
        let count = self.nodes.len();
        let invalid = |detail: String| Err(LockError::new(LockErrorKind::InvalidRequest, detail));
        if count == 0 {
            return invalid("a quorum has no nodes: give it 3, or a larger odd number".to_owned());
        }
        if count.is_multiple_of(2) {
            let (fewer, more, spare) = (count - 1, count + 1, max_failures(count));
            return invalid(format!(
                "a quorum of {count} nodes survives the failure of {spare}, as one of {fewer} does, and two who ask at \
                 once may get half of it each: give it {fewer} or {more}"
            ));
        }
        let names = self.names.len();
        if names > 0 && names != count {
            return invalid(format!("a quorum has {count} nodes and {names} names: give each node one"));
        }
        if self.node_timeout.is_some_and(|node_timeout| node_timeout.is_zero()) {
            return invalid("the node timeout is 0: no node could answer".to_owned());
        }
        let names = match names {
            0 => (1..=count).map(|number| number.to_string()).collect(),
            _ => self.names,
        };
        Ok(Quorum::assemble(names.into_iter().zip(self.nodes), self.node_timeout))
    }
}
