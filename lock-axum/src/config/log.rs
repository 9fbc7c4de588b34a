//! Logs the messages of a layer, and remembers which messages were logged.

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use lock_core::clock::Moment;

/// The log messages that one layer has written. All services of the layer share this value, because a router may mount
/// the layer again for each request.
#[derive(Debug, Default)]
pub(crate) struct Logged {
    misconfigured: Mutex<Vec<String>>,
    no_route: AtomicBool,
    unlocked: UnlockedCount,
}

/// The largest number of different mistakes of one layer that are logged as errors.
const MAX_MISTAKES: usize = 16;

impl Logged {
    /// Logs a mistake in the program. Such a mistake is the same for every request, so only the first occurrence of
    /// each text is logged as an error. Repetitions, and texts beyond [`MAX_MISTAKES`], are debug messages.
    pub(super) fn misconfigured(&self, template: &str, text: &dyn fmt::Display) {
        let text = text.to_string();
        let is_new = {
            let mut logged = self.misconfigured.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = logged.len() < MAX_MISTAKES && !logged.contains(&text);
            is_new.then(|| logged.push(text.clone())).is_some()
        };
        if is_new {
            tracing::error!(
                lock.template = template,
                "misconfigured, such requests are answered with 500: {text}"
            );
        } else {
            tracing::debug!(lock.template = template, "misconfigured: {text}");
        }
    }

    /// Logs once that a request was served without a lock because the router found no route.
    pub(super) fn no_route(&self, template: &str, status: StatusCode) {
        if !self.no_route.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                lock.template = template,
                http.status = status.as_u16(),
                "a request for which the router found no route was served without a lock: mount the layer inside \
                 `nest_service`, or on the routes with `route_layer`"
            );
        }
    }

    /// Counts a request that is served without a lock because the store does not answer. Logs the count, at most once
    /// in [`UNLOCKED_EVERY`].
    pub(super) fn unlocked(&self, template: &str, error: &dyn fmt::Display, now: Moment) {
        if let Some(count) = self.unlocked.add(now) {
            tracing::warn!(
                lock.template = template,
                %error,
                count,
                "the lock store does not answer, and requests are served without a lock as `on_store_error` says; `count` \
                 is their number since the last message"
            );
        }
    }
}

/// The number of requests that were served without a lock since the last log message, and the time of that message.
#[derive(Debug, Default)]
struct UnlockedCount(Mutex<(u64, Option<Moment>)>);

/// The shortest time between two log messages about requests without a lock.
const UNLOCKED_EVERY: Duration = Duration::from_secs(10);

impl UnlockedCount {
    /// Counts one request. If a new message is due, returns the number of requests since the last message.
    fn add(&self, now: Moment) -> Option<u64> {
        let mut guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, logged) = &mut *guard;
        *count += 1;
        if logged.is_some_and(|logged| now.since(logged) < UNLOCKED_EVERY) {
            return None;
        }
        *logged = Some(now);
        Some(mem::take(count))
    }
}
