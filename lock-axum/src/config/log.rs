//! What a layer has logged already.

use std::fmt;
use std::mem;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lock_core::clock::Moment;

/// What was logged already. All services of a layer share it: a router makes many, even one for each request until it
/// is given its state.
#[derive(Debug, Default)]
pub(crate) struct Told {
    misconfigured: Mutex<Vec<String>>,
    pub(super) no_route: AtomicBool,
    pub(super) unlocked: Unlocked,
}

/// So many different mistakes of one layer are told at the most.
const MOST_MISTAKES: usize = 16;

impl Told {
    /// Says what is wrong with the program: once, as it is the same for each request. What depends on the request as well
    /// has several texts, of which the first few are told.
    pub(super) fn misconfigured(&self, template: &str, text: &dyn fmt::Display) {
        let text = text.to_string();
        let is_news = {
            let mut told = self.misconfigured.lock().unwrap_or_else(PoisonError::into_inner);
            let is_news = told.len() < MOST_MISTAKES && !told.contains(&text);
            is_news.then(|| told.push(text.clone())).is_some()
        };
        if !is_news {
            tracing::debug!(lock.template = template, "misconfigured: {text}");
        } else {
            tracing::error!(
                lock.template = template,
                "misconfigured, such requests are answered with 500: {text}"
            );
        }
    }
}

/// Requests that were served without a lock because the store did not answer.
#[derive(Debug, Default)]
pub(super) struct Unlocked(Mutex<(u64, Option<Moment>)>);

/// So often the log tells of them, while there are any.
const UNLOCKED_EVERY: Duration = Duration::from_secs(10);

impl Unlocked {
    /// Counts one more; how many there were since the log last told of them, if it is to do so now.
    pub(super) fn add(&self, now: Moment) -> Option<u64> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, told) = &mut *guard;
        *count += 1;
        if told.is_some_and(|told| now.since(told) < UNLOCKED_EVERY) {
            return None;
        }
        *told = Some(now);
        Some(mem::take(count))
    }
}
