//! Defines the quorum, and implements `Backend` by calls to its nodes.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use super::answers::no_quorum;
use super::deadline::{Deadline, Detached};
use super::ledger::OwnerLedger;
use super::node::Node;
use super::reports::Reports;
use super::timing;
use super::votes::majority;
use crate::backend::{
    Ask, Attempt, Backend, Capability, Claim, Fencing, FencingToken, Finding, GrantId, LatchState, LatchStep,
    LeaseScope, Listed, Listener, Mode, Ping, Placement, Queue, Released, Renew, Renewal,
};
use crate::clock::{Clock, Moment};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;

/// A lock store that combines several independent stores. It grants a claim when more than half of these stores grant
/// the claim. See the [module](super) for the guarantees.
///
/// Clones share the nodes and the recorded state of the nodes.
///
/// # Examples
/// ```
/// use lock_core::LockManager;
/// use lock_core::backend::memory::Memory;
/// use lock_core::backend::redlock::quorum::Quorum;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// let nodes = vec![Memory::new(), Memory::new(), Memory::new()];
/// let locks = LockManager::builder(Quorum::new(nodes)?).build()?;
/// let guard = locks.lock("order:42").acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct Quorum<B>(pub(super) Arc<Inner<B>>);

pub(super) struct Inner<B> {
    pub(super) nodes: Box<[Node<B>]>,
    pub(super) ledger: Arc<OwnerLedger>,
    pub(super) capability: Capability,
    pub(super) node_timeout: Option<Duration>,
    reports: Reports,
}

impl<B: Backend> Quorum<B> {
    pub(super) fn assemble(nodes: impl Iterator<Item = (String, B)>, node_timeout: Option<Duration>) -> Self {
        let nodes: Box<[_]> = nodes.map(|(name, backend)| Node::new(name, backend)).collect();
        let capability = of_all(&nodes.iter().map(|node| node.backend.capability()).collect::<Vec<_>>());
        let (ledger, reports) = (OwnerLedger::new(nodes.len()), Reports::default());
        Self(Arc::new(Inner { ledger, nodes, capability, node_timeout, reports }))
    }
}

impl<B> Quorum<B> {
    /// Returns the nodes, in the order in which they were passed to the quorum.
    #[must_use]
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &B> {
        self.0.nodes.iter().map(|node| &node.backend)
    }

    /// Returns the number of nodes that must grant a claim.
    #[must_use]
    pub fn majority(&self) -> usize {
        majority(self.0.nodes.len())
    }

    /// Returns the names of the nodes that failed to answer several times in a row and have not answered since.
    #[must_use]
    pub fn unresponsive_nodes(&self) -> Vec<&str> {
        self.0.nodes.iter().filter(|node| node.is_suspect()).map(Node::name).collect()
    }
}

impl<B> Clone for Quorum<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> fmt::Debug for Quorum<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.nodes.iter().map(Node::name).collect();
        f.debug_struct("Quorum").field("nodes", &names).finish_non_exhaustive()
    }
}

/// Returns the capability of a quorum whose nodes have the capabilities `each`.
fn of_all(each: &[Capability]) -> Capability {
    let all = |can: fn(&Capability) -> bool| each.iter().all(can);
    let embedded = all(|node| node.placement == Placement::Embedded);
    Capability {
        shared: all(|node| node.shared),
        // Overlapping majorities can admit one owner, but they cannot count several owners: see `permits`.
        permits: each.len() == 1 && all(|node| node.permits),
        several: all(|node| node.several),
        // A token is made by one node, whose clock may be ahead of the other clocks. So tokens do not measure time, and
        // a process must not number its hand-offs itself. Each hand-off requests a token from the nodes.
        fencing: if all(|node| node.fencing.gives_tokens()) { Fencing::Counter } else { Fencing::None },
        marks_sent: true,
        // On a node with sessions, a grant ends only with its session. So if one node has sessions, every grant must be
        // released.
        lease: if all(|node| node.lease == LeaseScope::Grant) {
            LeaseScope::Grant
        } else {
            LeaseScope::Session
        },
        placement: if embedded { Placement::Embedded } else { Placement::Remote },
        // The strictest limit of all nodes counts, because each node may be in a majority.
        min_ttl: each.iter().map(|node| node.min_ttl).max().unwrap_or_default().max(timing::MIN_TTL),
        max_ttl: each.iter().map(|node| node.max_ttl).min().unwrap_or_default(),
        ttl_step: each.iter().map(|node| node.ttl_step).max().flatten(),
        // `None` is less than every other value, so one node with `None` makes the result `None`.
        keeps_after_release: each.iter().map(|node| node.keeps_after_release).min().flatten(),
        ..Capability::exclusive("quorum")
    }
}

impl<B> Inner<B> {
    pub(super) fn clock(&self) -> Clock {
        self.capability.placement.clock()
    }

    pub(super) fn now(&self) -> Moment {
        self.clock().now()
    }

    /// Returns the deadline of a call that began at `from`.
    pub(super) fn patience(&self, alone: Detached, from: Moment, limit: Duration) -> Deadline {
        Deadline { alone, clock: self.clock(), from, limit, with_caller: false }
    }

    pub(super) fn drift(&self, lease: Duration) -> Duration {
        self.capability.placement.drift(lease)
    }

    /// Returns the time until which the holder certainly has a lease that was requested at `sent`.
    pub(super) fn valid(&self, sent: Moment, lease: Duration) -> Moment {
        sent.plus(timing::validity(lease, self.drift(lease), Duration::ZERO))
    }

    /// Returns a function that is true for each node for which a call does not wait. These are the suspect nodes, if
    /// the other nodes are a majority. Nodes that `failed` in this call do not count towards this majority.
    pub(super) fn skipped(&self, failed: impl Fn(usize) -> bool) -> impl Fn(usize) -> bool {
        let sound = |(number, node): &(usize, &Node<B>)| !node.is_suspect() && !failed(*number);
        // If the other nodes are not a majority, the suspect nodes decide. If a caller skipped these nodes, it would
        // fail unnecessarily.
        let enough = self.nodes.iter().enumerate().filter(sound).count() >= majority(self.nodes.len());
        move |node| enough && self.nodes[node].is_suspect()
    }

    /// Returns the error of a call without a majority, from the answers of the nodes in their order.
    pub(super) fn no_majority<T>(
        &self,
        what: &str,
        answers: impl IntoIterator<Item = Option<Result<T>>>,
    ) -> LockError {
        let failures = self.nodes.iter().zip(answers).filter_map(|(node, answer)| match answer {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some((node.name(), Some(error))),
            None => Some((node.name(), None)),
        });
        no_quorum(self.nodes.len(), what, failures.collect())
    }

    /// Returns an error if a quorum does not support the claim. Does no I/O.
    pub(super) fn supports(&self, claim: &Claim) -> Result<()> {
        let nodes = self.nodes.len();
        let detail = match claim.mode {
            Mode::Permit { of } if !self.capability.permits && nodes > 1 => permits(nodes, of),
            Mode::Permit { .. } if !self.capability.permits => "the nodes have no semaphores".to_owned(),
            Mode::Shared if !self.capability.shared => "the nodes have no shared locks".to_owned(),
            _ if claim.queue == Queue::Fifo => {
                "a quorum has no queue: the nodes could each have another order of arrival; use a kind without an order"
                    .to_owned()
            }
            _ if !claim.more.is_empty() && !self.capability.several => {
                "the nodes cannot lock several keys at once".to_owned()
            }
            _ if claim.fencing && !self.capability.fencing.gives_tokens() => "the nodes give no fencing tokens".to_owned(),
            _ => return Ok(()),
        };
        Err(unsupported(detail).with_key(&claim.key))
    }
}

fn unsupported(detail: impl Into<std::borrow::Cow<'static, str>>) -> LockError {
    LockError::new(LockErrorKind::Unsupported, detail)
}

/// Explains why a quorum has no semaphores, with the numbers of this request.
fn permits(nodes: usize, of: u32) -> String {
    if of <= 1 {
        return "a quorum has no semaphores; one permit is an exclusive lock, which it has".to_owned();
    }
    let need = majority(nodes);
    let of = usize::try_from(of).unwrap_or(usize::MAX);
    let admitted = nodes.saturating_mul(of) / need;
    format!(
        "{nodes} nodes with {of} permits each have {} in all, a holder takes {need} of them, so up to {admitted} would \
         hold a semaphore of {of}; keep semaphores in a single store",
        nodes.saturating_mul(of)
    )
}

impl<B: Backend> Backend for Quorum<B> {
    fn capability(&self) -> Capability {
        self.0.capability
    }

    async fn acquire(&self, claim: &Claim, ask: Ask) -> Result<Attempt> {
        // A node must never queue the claim. Such a node would later grant the lock to this owner without a majority.
        self.0.acquire(claim, ask.without_queue()).await
    }

    async fn renew<'a>(&'a self, batch: &'a [Renew<'a>]) -> Vec<Renewal> {
        self.0.renew_all(batch).await
    }

    async fn release(&self, claim: &Claim, keep_for: Option<Duration>) -> Result<Released> {
        self.0.give_back(claim, keep_for).await
    }

    async fn fence(&self, claim: &Claim) -> Result<FencingToken> {
        if !self.0.capability.fencing.gives_tokens() {
            return Err(unsupported("the nodes give no fencing tokens").with_key(&claim.key));
        }
        self.0.fence_of(claim).await
    }

    async fn downgrade(&self, claim: &Claim) -> Renewal {
        if !self.0.capability.shared {
            return Renewal::Unknown(unsupported("the nodes have no shared locks").with_key(&claim.key));
        }
        self.0.downgrade(claim).await
    }

    async fn latch(&self, key: &Key, _step: &LatchStep) -> Result<LatchState> {
        let detail = "a quorum has no count-down latches: two halves of the nodes could each have counted other owners; \
                      keep latches in a single store";
        Err(unsupported(detail).with_key(key))
    }

    async fn list(&self, _prefix: &str, _foreign: bool, _limit: usize) -> Result<Listed> {
        let detail =
            "a quorum does not list its locks: look at its nodes, each of which may name another holder";
        Err(unsupported(detail))
    }

    async fn force_release(&self, key: &Key, _id: &GrantId) -> Result<bool> {
        let detail = "a quorum does not take a lock from its holder: do so on a majority of its nodes";
        Err(unsupported(detail).with_key(key))
    }

    async fn ping(&self) -> Result<Ping> {
        self.0.ping().await
    }

    async fn doctor(&self) -> Result<Vec<Finding>> {
        self.0.doctor().await
    }

    fn attach(&self, process: u128, listener: Weak<dyn Listener>, background: Option<&Handle>) {
        // The nodes get a weak reference to a filter of their reports. The quorum keeps the filter alive.
        let listener = self.0.reports.add(listener);
        for node in &self.0.nodes {
            node.backend.attach(process, Weak::clone(&listener), background);
        }
    }

    async fn close(&self) {
        for node in &self.0.nodes {
            node.backend.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{WAITER_LEASE, Waiting};

    #[test]
    fn a_quorum_can_do_what_all_of_its_nodes_can() {
        let full = Capability {
            shared: true,
            permits: true,
            several: true,
            latches: true,
            waiting: Waiting::Watch { waiter_lease: WAITER_LEASE, tells_holder: true },
            fencing: Fencing::StoreTime,
            placement: Placement::Embedded,
            min_ttl: Duration::from_millis(1),
            ..Capability::exclusive("full")
        };
        let bare = Capability { max_ttl: Duration::from_secs(60), ..Capability::exclusive("bare") };
        let three = of_all(&[full, full, full]);
        assert!(three.shared && three.several && three.fencing == Fencing::Counter && three.marks_sent);
        assert!(!(three.permits || three.latches));
        assert_eq!(three.waiting, Waiting::Poll);
        assert_eq!((three.placement, three.min_ttl), (Placement::Embedded, timing::MIN_TTL));
        let mixed = of_all(&[full, bare, full]);
        assert!(!(mixed.shared || mixed.several || mixed.fencing.gives_tokens()));
        assert_eq!((mixed.placement, mixed.max_ttl), (Placement::Remote, Duration::from_secs(60)));
        assert!(of_all(&[full]).permits, "one node counts by itself");
    }

    #[test]
    fn why_there_are_no_semaphores() {
        for (nodes, of, admitted) in [(3, 2, 3), (3, 10, 15), (5, 3, 5), (5, 2, 3)] {
            let text = permits(nodes, of);
            assert!(text.contains(&format!("up to {admitted} would hold a semaphore of {of}")), "{text}");
        }
    }

    /// The ledger forgets an owner that is no longer used, whatever the outcome of its attempts was.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_remembered_of_owners_that_are_gone() {
        use crate::backend::memory::Memory;
        use crate::owner::{Identity, OwnerRecord, OwnerSource};

        let quorum = Quorum::new(vec![Memory::new(), Memory::new(), Memory::new()]).expect("odd");
        let owners = OwnerSource::new().expect("random bytes");
        let identity = Arc::new(Identity::of_this_process("test"));
        let claim = || {
            let (key, ttl) = (Key::new("k").expect("a key"), Duration::from_secs(10));
            Claim::new(key, owners.mint(), ttl, OwnerRecord::new(Arc::clone(&identity), None))
        };
        let holder = Claim { fencing: true, ..claim() };
        assert!(matches!(quorum.acquire(&holder, Ask::Try).await, Ok(Attempt::Granted(_))));
        for _ in 0..10 {
            let refused = claim();
            assert!(matches!(quorum.acquire(&refused, Ask::Try).await, Ok(Attempt::Held(_))));
            let dropped = claim();
            drop(tokio::time::timeout(Duration::ZERO, quorum.acquire(&dropped, Ask::Try)).await);
            let stranger = claim();
            let _ = quorum.renew(&[Renew { claim: &stranger, ttl: stranger.ttl }]).await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(quorum.0.ledger.len(), 1, "the holder");
        quorum.release(&holder, None).await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(quorum.0.ledger.len(), 0);
    }

    /// The library moves the backend and its futures between threads, so they must be `Send`.
    #[test]
    fn bounds() {
        fn threads<T: Send + Sync + 'static>() {}
        fn send<T: Send>(future: T) -> T {
            future
        }
        threads::<Quorum<crate::backend::memory::Memory>>();
        let quorum = Quorum::new(vec![crate::backend::memory::Memory::new()]).expect("one is odd");
        drop(send(quorum.close()));
    }
}
