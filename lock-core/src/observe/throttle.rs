//! Limits how often a repeated warning is logged, and counts the suppressed warnings.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::Moment;
use crate::sync::Mutex;

/// The shortest time between two warnings of the same kind about the same template.
const EVERY: Duration = Duration::from_secs(10);

/// The maximum number of templates that are limited separately.
const MAX_TEMPLATES: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// The request gave up before the lock was free.
    GaveUp,
    Overloaded,
    StoreFails,
    Renewal,
    Release,
    HeldLong,
    /// A layer on top of the library refused a request, because it did not acquire the lock.
    Refused,
    /// The holder is a client of another library, and its lock never expires.
    NoExpiry,
    /// A timer of the library fired late.
    Stall,
}

impl Warning {
    const COUNT: usize = 9;
}

/// The warnings of one kind about one template.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    last: Option<Moment>,
    left_out: u64,
}

impl Entry {
    /// Returns the number of warnings that were left out before this one. Returns `None` if this one must be left out
    /// too.
    fn admit(&mut self, now: Moment) -> Option<u64> {
        if self.last.is_some_and(|last| now.since(last) < EVERY) {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }

    fn is_over(&self, now: Moment) -> bool {
        self.last.is_none_or(|last| now.since(last) >= EVERY)
    }
}

/// Limits how often warnings are logged. To limit the memory, all templates beyond `MAX_TEMPLATES` share one entry.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    templates: Mutex<HashMap<Box<str>, [Entry; Warning::COUNT]>>,
}

impl Throttle {
    /// Returns the number of similar warnings that were left out before this one. Returns `None` if this one must be
    /// left out too.
    pub(crate) fn admit(&self, template: &str, warning: Warning, now: Moment) -> Option<u64> {
        let mut templates = self.templates.lock();
        if !templates.contains_key(template) && templates.len() >= MAX_TEMPLATES {
            templates.retain(|_, entries| !entries.iter().all(|entry| entry.is_over(now)));
        }
        let is_known = templates.contains_key(template);
        let name = if is_known || templates.len() < MAX_TEMPLATES { template } else { "" };
        if let Some(entries) = templates.get_mut(name) {
            return entries[warning as usize].admit(now);
        }
        let entries = templates.entry(name.into()).or_default();
        entries[warning as usize].admit(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn one_in_ten_seconds_is_told_and_the_others_are_counted() {
        let (throttle, start) = (Throttle::default(), Clock::Suspend.now());
        let at = |ms| start.plus(Duration::from_millis(ms));
        let admit = |template, warning, ms| throttle.admit(template, warning, at(ms));
        assert_eq!(admit("a", Warning::GaveUp, 0), Some(0));
        assert_eq!(admit("a", Warning::GaveUp, 1), None);
        assert_eq!(admit("b", Warning::GaveUp, 2), Some(0), "another template");
        assert_eq!(admit("a", Warning::Renewal, 3), Some(0), "another sort");
        assert_eq!(admit("a", Warning::GaveUp, 9_999), None);
        assert_eq!(admit("a", Warning::GaveUp, 10_000), Some(2));
        assert_eq!(admit("a", Warning::GaveUp, 10_001), None);
        assert_eq!(admit("a", Warning::GaveUp, 60_000), Some(1));
    }

    #[test]
    fn any_number_of_templates_takes_a_bounded_memory() {
        let (throttle, start) = (Throttle::default(), Clock::Suspend.now());
        let len = || throttle.templates.lock().len();
        let entries = (0..10_000)
            .filter(|id| throttle.admit(&format!("order {id}"), Warning::GaveUp, start).is_some())
            .count();
        assert!(len() <= MAX_TEMPLATES + 1, "{}", len());
        assert_eq!(entries, MAX_TEMPLATES + 1, "the further ones share one place");
        let later = start.plus(EVERY);
        assert_eq!(throttle.admit("new", Warning::GaveUp, later), Some(0), "what is over makes room");
        assert!(len() <= 2, "{}", len());
    }
}
