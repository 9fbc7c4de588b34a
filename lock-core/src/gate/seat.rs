//! What one waiter is told by the others of its line.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::turn::Turn;
use crate::acquire::InFlight;
use crate::clock::Moment;

/// A place in the line.
pub(super) struct Seat {
    /// The lease that its waiter asks for.
    ttl: Duration,
    news: Mutex<News>,
    /// Keeps one permit, so that nothing is missed between two waits.
    bell: Notify,
}

/// What has happened since the waiter last looked.
#[derive(Default)]
pub(super) struct News {
    /// It is the head, and the store may have the key free.
    pub(super) ask: bool,
    /// It is its turn.
    pub(super) turn: Option<Turn>,
    /// The place in the store's queue that the head before it has left.
    pub(super) place: Option<InFlight>,
    /// When its waiter was last seen at work.
    pub(super) seen: Option<Moment>,
    /// Its waiter has left.
    pub(super) gone: bool,
}

impl Seat {
    pub(super) fn new(ttl: Duration, now: Moment) -> Self {
        let news = News { seen: Some(now), ..News::default() };
        Self { ttl, news: Mutex::new(news), bell: Notify::new() }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}
