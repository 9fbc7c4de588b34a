//! The properties that must hold in every state.

use super::protocol::{Fault, Message, NOW, Owner, State};
use super::world::Protocol;

pub(crate) const ONE_HOLDER: &str = "at most one holds for certain";
pub(crate) const ORDER: &str = "who waits is served in order of arrival";
pub(crate) const QUEUED_ONCE: &str = "an owner queues at most once";
pub(crate) const BOTH_KEYS: &str = "who is in one key of the queue is in the other";
pub(crate) const KEPT: &str = "no place is dropped while its owner counts on it";
pub(crate) const NO_ORPHAN: &str = "what nobody wants any more is being given back";
pub(crate) const TOLD: &str = "a head that waits for its own process is going to be told";
pub(crate) const SERVED: &str = "a release serves who has asked since the grant";
pub(crate) const BRIEFLY: &str = "a grant lingers no longer than its linger and its lease";
pub(crate) const GIVES_WAY: &str = "a lingering grant gives way to who waits elsewhere";
pub(crate) const PROGRESS: &str = "signs of life alone serve everybody";

impl Protocol {
    /// Returns the first property that does not hold.
    pub(crate) fn property(&mut self, state: &State) -> Option<&'static str> {
        let loses = |fault| self.size.faults.contains(&fault);
        let exclusive = !loses(Fault::LoseData);
        if let Some(wrong) = state.wrong
            && (exclusive || wrong != ONE_HOLDER)
        {
            return Some(wrong);
        }
        let checks = [
            (ONE_HOLDER, !exclusive || one_holder(state)),
            (BOTH_KEYS, loses(Fault::LoseQueue) || both_keys(state)),
            (NO_ORPHAN, no_orphan(state)),
            (TOLD, told(state)),
            (BRIEFLY, briefly(state)),
            (GIVES_WAY, gives_way(state)),
        ];
        let broken = checks.into_iter().find(|(_, holds)| !holds).map(|(name, _)| name);
        broken.or_else(|| (!self.settles(state)).then_some(PROGRESS))
    }
}

fn one_holder(state: &State) -> bool {
    let certain = |hold: super::protocol::Hold| hold.until > NOW;
    state.processes.iter().filter(|process| process.hold.is_some_and(certain)).count() <= 1
}

fn briefly(state: &State) -> bool {
    let lasts = |linger: super::protocol::Linger| linger.end > NOW && linger.until > NOW;
    state.processes.iter().all(|process| process.linger.is_none_or(lasts))
}

/// Checks that a grant does not linger while a waiter is in the store's queue, unless the notification of the waiter or
/// the release is in flight. If a plain SET overtook the queue, its holder is not notified, and its linger ends by
/// time.
fn gives_way(state: &State) -> bool {
    let lives = |entry: &super::protocol::Entry| entry.until > NOW && state.process(entry.owner).alive;
    let kept = |(i, process): (usize, &super::protocol::Process)| {
        let is_told = |message: &Message| matches!(message, Message::Contended { process } if usize::from(*process) == i);
        let blocks = |owner| state.holds(owner) && !is_cancelled(state, owner);
        process.linger.is_some_and(|linger| blocks(linger.owner)) && !state.net.iter().any(is_told)
    };
    state.overtook || !state.waiting.iter().any(lives) || !state.processes.iter().enumerate().any(kept)
}

fn both_keys(state: &State) -> bool {
    state.queue.len() == state.waiting.len()
        && state.waiting.iter().all(|entry| state.queue.contains(&entry.owner))
}

fn is_cancelled(state: &State, owner: Owner) -> bool {
    let of = |message: &Message| matches!(message, Message::Cancel { owner: cancelled, .. } if *cancelled == owner);
    state.net.iter().any(of)
}

/// Checks that every owner that the store knows is wanted by its process, or about to be released. The entries of a
/// dead process expire, because a queue entry or a lease always has an end.
fn no_orphan(state: &State) -> bool {
    let holder = state.holder.map(|(owner, _)| owner);
    let known = holder.into_iter().chain(state.waiting.iter().map(|entry| entry.owner));
    known.into_iter().all(|owner| {
        let process = state.process(owner);
        !process.alive || process.wants(owner) || is_cancelled(state, owner)
    })
}

/// Checks that a waiter that relies on another holder of its process is not forgotten. The other holder has the key, or
/// its release is in flight.
fn told(state: &State) -> bool {
    let tells = |i: usize| {
        let process = &state.processes[i];
        let of = |message: &Message| match message {
            Message::Cancel { owner, .. } => usize::from(owner.process) == i,
            Message::Freed { process } => usize::from(*process) == i,
            _ => false,
        };
        // The process may already be the holder without the answer that says so.
        let is_set = process.grab.is_some_and(|(owner, _)| state.holds(owner));
        process.hold.is_some() || is_set || state.net.iter().any(of)
    };
    (0..state.processes.len()).all(|i| !state.processes[i].waits_to_be_told() || tells(i))
}
