//! One key: who waits for it in this process, and whose turn it is.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::handoff::Handoff;
use super::waiter_node::{News, WaiterNode};
use crate::clock::Moment;
use crate::pending::PendingClaim;

/// How many turns a process takes on one grant while others wait elsewhere, and for how long at most.
const HANDOFFS: u32 = 64;
const QUANTUM: Duration = Duration::from_millis(10);

/// What is left of a process's turns on one grant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantum {
    /// Since when others are known to wait elsewhere, and how many turns were taken since.
    contended: Option<(Moment, u32)>,
}

impl Quantum {
    /// Others wait elsewhere. The quantum begins with that news, not with the grant.
    pub(super) fn contend(&mut self, now: Moment) {
        self.contended.get_or_insert((now, 0));
    }

    #[cfg(test)]
    pub(super) fn is_contended(self) -> bool {
        self.contended.is_some()
    }

    pub(super) fn is_over(self, now: Moment) -> bool {
        self.contended.is_some_and(|(began, handoffs)| handoffs >= HANDOFFS || now.since(began) >= QUANTUM)
    }

    pub(super) fn count_handoff(&mut self) {
        if let Some((_, handoffs)) = &mut self.contended {
            *handoffs += 1;
        }
    }
}

/// What comes of a change, outside of the lock of the queue: both may run code of the application.
#[derive(Debug, Default)]
pub(super) struct After {
    /// Who has news: the head, and those who were passed over, should they be polled after all.
    pub(super) ring: Vec<Arc<WaiterNode>>,
    /// Places that nobody has any more.
    pub(super) unused: Vec<PendingClaim>,
}

/// What a look finds that somebody was told and has not heard.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    /// Somebody has a while yet.
    pub(super) open: bool,
    /// Turns that nobody takes.
    pub(super) handoffs: Vec<Handoff>,
    pub(super) after: After,
    /// Who was asked about. What is dropped with a node must not be dropped under the lock of the queue.
    nodes: Vec<Arc<WaiterNode>>,
}

/// Who was told something, and when. Not owned, for the same reason.
type Told = Option<(Weak<WaiterNode>, Moment)>;

/// The waiters of one key. There is a queue while somebody waits, and while a holder that came through it holds: so
/// that newcomers join without asking a store that would say no.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    /// In order of arrival; the first is the head.
    nodes: VecDeque<Arc<WaiterNode>>,
    /// A grant that came through this queue is in use.
    held: bool,
    quantum: Quantum,
    /// To whom the last turn was offered.
    offered: Told,
    /// Which head was told last that it is to ask.
    asked: Told,
}

impl KeyQueue {
    pub(super) fn is_idle(&self) -> bool {
        self.nodes.is_empty() && !self.held
    }

    pub(super) fn waiting(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn is_head(&self, node: &Arc<WaiterNode>) -> bool {
        self.nodes.front().is_some_and(|head| Arc::ptr_eq(head, node))
    }

    /// Takes a node at the end. The first in queue is to ask the store, unless the key is held through the queue: then it
    /// is told when that changes.
    pub(super) fn join(&mut self, ttl: Duration, now: Moment) -> Arc<WaiterNode> {
        let node = Arc::new(WaiterNode::new(ttl, now));
        self.push(&node);
        node
    }

    pub(super) fn head(&self) -> Option<Arc<WaiterNode>> {
        self.nodes.front().cloned()
    }

    /// Takes the node of one that was passed over to the end.
    pub(super) fn rejoin(&mut self, node: &Arc<WaiterNode>) {
        if std::mem::take(&mut node.news().skipped) {
            self.push(node);
        }
    }

    fn push(&mut self, node: &Arc<WaiterNode>) {
        self.nodes.push_back(Arc::clone(node));
        if self.nodes.len() == 1 && !self.held {
            node.news().ask = true;
        }
    }

    /// Gives up a node, and what comes with it to the one behind.
    pub(super) fn leave(
        &mut self,
        node: &Arc<WaiterNode>,
        entry: Option<PendingClaim>,
        now: Moment,
    ) -> After {
        let was_head = self.is_head(node);
        let entry = entry.or_else(|| node.news().entry.take());
        self.nodes.retain(|other| !Arc::ptr_eq(other, node));
        node.news().gone = true;
        let mut after = After::default();
        if was_head {
            // The one who leaves may have taken the news with it.
            self.succeed(entry, now, &mut after);
        } else {
            after.unused.extend(entry);
        }
        after
    }

    /// The one who is the head now has what the one before it had.
    fn succeed(&mut self, entry: Option<PendingClaim>, now: Moment, after: &mut After) {
        let Some(head) = self.nodes.front() else { return after.unused.extend(entry) };
        let mut news = head.news();
        if entry.is_some() {
            after.unused.extend(std::mem::replace(&mut news.entry, entry));
        }
        if !self.held {
            news.ask = true;
            self.asked = Some((Arc::downgrade(head), now));
        }
        after.ring.push(Arc::clone(head));
    }

    /// The head is not polled: it is out of the queue until it is.
    fn skip(&mut self, now: Moment, after: &mut After) {
        let Some(head) = self.nodes.pop_front() else { return };
        let entry = {
            let mut news = head.news();
            (news.skipped, news.ask) = (true, false);
            news.entry.take()
        };
        self.succeed(entry, now, after);
        // Should it be polled after all, it is so soon.
        after.ring.push(head);
    }

    /// Passes over the heads that should have looked round long ago.
    pub(super) fn skip_stalled(&mut self, now: Moment, after: &mut After) {
        while self.nodes.front().is_some_and(|head| head.news().is_stalled(now)) {
            self.skip(now, after);
        }
    }

    /// The head has a grant from the store. Others may wait there: `contended`.
    pub(super) fn granted(
        &mut self,
        node: &Arc<WaiterNode>,
        contended: bool,
        now: Moment,
    ) -> Option<PendingClaim> {
        self.nodes.retain(|other| !Arc::ptr_eq(other, node));
        self.begin(contended, now);
        node.news().entry.take()
    }

    fn begin(&mut self, contended: bool, now: Moment) {
        self.held = true;
        // The word that others wait may be older than the look at the grant.
        let contended = contended || self.quantum.contended.is_some();
        self.quantum = Quantum::default();
        self.offered = None;
        if contended {
            self.quantum.contend(now);
        }
    }

    /// Gives the grant to the next in queue, if there is one and the quantum is not over.
    pub(super) fn hand_off(
        &mut self,
        handoff: impl FnOnce(Duration) -> Option<Handoff>,
        now: Moment,
    ) -> Option<Arc<WaiterNode>> {
        self.offered = None;
        self.held = false;
        let asked = self.nodes.front()?.ttl();
        if self.quantum.is_over(now) {
            return None;
        }
        let handoff = handoff(asked)?;
        let next = self.nodes.pop_front()?;
        self.quantum.count_handoff();
        self.held = true;
        next.news().handoff = Some(handoff);
        self.offered = Some((Arc::downgrade(&next), now));
        Some(next)
    }

    /// The key was given back to the store, or lost: the head is to ask.
    pub(super) fn freed(&mut self, now: Moment) -> Option<Arc<WaiterNode>> {
        self.held = false;
        self.quantum = Quantum::default();
        let head = self.nodes.front()?;
        head.news().ask = true;
        self.asked = Some((Arc::downgrade(head), now));
        Some(Arc::clone(head))
    }

    pub(super) fn contend(&mut self, now: Moment) {
        self.quantum.contend(now);
    }

    #[cfg(test)]
    pub(super) fn is_contended(&self) -> bool {
        self.quantum.is_contended()
    }

    /// Takes back what was told and not heard for `patience`.
    pub(super) fn take_back(&mut self, patience: Duration, now: Moment, found: &mut Unheard) {
        if let Some(node) = unheard(&mut self.offered, News::has_handoff, patience, now, found) {
            let mut news = node.news();
            news.skipped = true;
            found.handoffs.extend(news.handoff.take());
        }
        if let Some(node) = unheard(&mut self.asked, News::is_to_ask, patience, now, found)
            && self.is_head(&node)
        {
            self.skip(now, &mut found.after);
        }
    }
}

/// Who was `told` something so long ago that still `has` it.
fn unheard(
    told: &mut Told,
    has: fn(&News) -> bool,
    patience: Duration,
    now: Moment,
    found: &mut Unheard,
) -> Option<Arc<WaiterNode>> {
    let (node, since) = told.as_ref()?;
    let has_it = node.upgrade().filter(|node| {
        found.nodes.push(Arc::clone(node));
        has(&node.news())
    });
    if has_it.is_some() && now.since(*since) < patience {
        found.open = true;
        return None;
    }
    *told = None;
    has_it
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_slice_ends_by_turns_or_by_time_once_others_wait() {
        let start = Clock::Suspend.now();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut quantum = Quantum::default();
        for _ in 0..10 * HANDOFFS {
            quantum.count_handoff();
        }
        assert!(!quantum.is_over(at(60_000)), "nobody else waits");
        quantum.contend(at(60_000));
        assert!(!quantum.is_over(at(60_009)) && quantum.is_over(at(60_010)), "it begins with the news");
        quantum.contend(at(60_009));
        assert!(quantum.is_over(at(60_010)), "the first news counts");

        let mut quantum = Quantum::default();
        quantum.contend(start);
        for _ in 1..HANDOFFS {
            quantum.count_handoff();
        }
        assert!(!quantum.is_over(start));
        quantum.count_handoff();
        assert!(quantum.is_over(start));
    }
}
