//! Records the events of this process in the last quarter of an hour. Times are counted from the start of the journal,
//! and the caller passes the present time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use lock_core::LockEvent;
use lock_core::observe::LockName;
use serde::Serialize;

use super::histogram::Histogram;

/// The time for which the journal keeps events.
pub(super) const SPAN: Duration = Duration::from_secs(15 * 60);
/// The length of a slot of time, in seconds. The journal has one set of statistics for each slot.
const SLOT: u64 = 60;
/// The largest number of events in each of the two queues. One queue has grants and releases, the other has all other
/// events.
const EVENTS: usize = 250;
/// The largest number of templates. Further templates are counted together.
const TEMPLATES: usize = 200;
const FURTHER: &str = "(others)";

/// The last events, and statistics for each template.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// The time when the journal began, in milliseconds since the Unix epoch.
    began_ms: u64,
    namespace: String,
    added: u64,
    /// Grants and releases. Many grants must not displace a loss, so this queue is separate.
    usual: VecDeque<Entry>,
    others: VecDeque<Entry>,
    templates: BTreeMap<String, VecDeque<(u64, Slot)>>,
}

/// An event, as it is sent to the page.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Entry {
    /// The number of the event.
    seq: u64,
    /// The time of the event, in milliseconds since the Unix epoch.
    at_ms: u64,
    #[serde(skip)]
    at: Duration,
    #[serde(flatten)]
    event: LockEvent,
}

/// The statistics of one template in one slot of time.
#[derive(Clone, Debug, Default)]
struct Slot {
    granted: u64,
    refused: u64,
    waited: Histogram,
    held: Histogram,
}

/// The statistics of one template.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Heat {
    pub(super) template: String,
    pub(super) granted: u64,
    pub(super) refused: u64,
    pub(super) waited_p50_ms: Option<f64>,
    pub(super) waited_p99_ms: Option<f64>,
    /// The number of locks that were released or lost.
    pub(super) ended: u64,
    pub(super) held_p50_ms: Option<f64>,
    pub(super) held_p99_ms: Option<f64>,
}

impl Journal {
    pub(super) fn new(began_ms: u64, namespace: &str) -> Self {
        Self { began_ms, namespace: namespace.to_owned(), ..Self::default() }
    }

    pub(super) fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// Adds an event that happened at `at`.
    pub(super) fn add(&mut self, at: Duration, event: LockEvent) {
        match &event {
            LockEvent::Granted { lock, waited, .. } => {
                let slot = self.slot(at, lock);
                slot.granted += 1;
                slot.waited.add(*waited);
            }
            LockEvent::Refused { lock, waited, .. } => {
                let slot = self.slot(at, lock);
                slot.refused += 1;
                slot.waited.add(*waited);
            }
            LockEvent::Released { lock, held, .. } | LockEvent::Lost { lock, held, .. } => {
                self.slot(at, lock).held.add(*held);
            }
            _ => {}
        }
        let events = match &event {
            LockEvent::Granted { .. } | LockEvent::Released { .. } => &mut self.usual,
            _ => &mut self.others,
        };
        if events.len() == EVENTS {
            events.pop_front();
        }
        let at_ms = self.began_ms.saturating_add(millis(at));
        events.push_back(Entry { seq: self.added, at_ms, at, event });
        self.added += 1;
    }

    /// Returns the events of the last quarter of an hour. The newest event comes first.
    pub(super) fn history(&self, now: Duration) -> Vec<Entry> {
        let is_recent = |entry: &&Entry| entry.at + SPAN > now;
        let mut recent: Vec<Entry> =
            self.usual.iter().chain(&self.others).filter(is_recent).cloned().collect();
        recent.sort_unstable_by_key(|entry| Reverse(entry.seq));
        recent
    }

    /// Returns the statistics of each template in the last quarter of an hour. The template with the longest waits
    /// comes first.
    pub(super) fn heat(&self, now: Duration) -> Vec<Heat> {
        let mut heat: Vec<Heat> =
            self.templates.iter().filter_map(|(template, slots)| of_slots(template, slots, now)).collect();
        let waited = |heat: &Heat| heat.waited_p99_ms.unwrap_or(-1.0);
        heat.sort_by(|a, b| waited(b).total_cmp(&waited(a)));
        heat
    }

    fn slot(&mut self, at: Duration, lock: &LockName) -> &mut Slot {
        let name = name(lock, &self.namespace);
        let has_room = self.templates.len() < TEMPLATES || self.templates.contains_key(&name);
        let slots = self.templates.entry(if has_room { name } else { FURTHER.to_owned() }).or_default();
        let number = at.as_secs() / SLOT;
        if slots.back().is_none_or(|(last, _)| *last < number) {
            slots.push_back((number, Slot::default()));
        }
        while slots.front().is_some_and(|(first, _)| !is_recent(*first, at)) {
            slots.pop_front();
        }
        let at = slots.len() - 1;
        &mut slots[at].1
    }
}

/// Returns whether a slot is in the last quarter of an hour.
fn is_recent(slot: u64, now: Duration) -> bool {
    slot + SPAN.as_secs() / SLOT > now.as_secs() / SLOT
}

fn of_slots(template: &str, slots: &VecDeque<(u64, Slot)>, now: Duration) -> Option<Heat> {
    let mut all = Slot::default();
    for (_, slot) in slots.iter().filter(|(number, _)| is_recent(*number, now)) {
        all.granted += slot.granted;
        all.refused += slot.refused;
        all.waited.merge(&slot.waited);
        all.held.merge(&slot.held);
    }
    let heat = Heat {
        template: template.to_owned(),
        granted: all.granted,
        refused: all.refused,
        waited_p50_ms: all.waited.percentile_ms(50),
        waited_p99_ms: all.waited.percentile_ms(99),
        ended: all.held.count(),
        held_p50_ms: all.held.percentile_ms(50),
        held_p99_ms: all.held.percentile_ms(99),
    };
    (heat.granted > 0 || heat.refused > 0 || heat.held_p50_ms.is_some()).then_some(heat)
}

/// Returns the template of a lock. A lock without a template gets a name such as `order:*` for the key `order:42`.
fn name(lock: &LockName, namespace: &str) -> String {
    if let Some(template) = &lock.template {
        return template.clone().into_owned();
    }
    let key = lock.key.as_str();
    let inside = key.strip_prefix(namespace).and_then(|key| key.strip_prefix(':'));
    by_first_part(if namespace.is_empty() { key } else { inside.unwrap_or(key) })
}

/// Returns the name under which keys without a template are counted together.
pub(super) fn by_first_part(key: &str) -> String {
    key.split_once(':').map_or_else(|| key.to_owned(), |(first, _)| format!("{first}:*"))
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
