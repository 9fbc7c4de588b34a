//! Locks without poisoning.
//!
//! Application code, such as a log subscriber or a waker, may panic while one of these locks is held. The state behind
//! them is consistent between any two statements, so such a panic must not make every later call fail.

use std::fmt;
use std::sync::{self, MutexGuard, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// [`std::sync::Mutex`] without poisoning.
#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// [`std::sync::RwLock`] without poisoning.
#[cfg_attr(
    not(any(feature = "metrics", feature = "redis")),
    allow(dead_code, reason = "only metrics and connections are read more often than they are written")
)]
#[derive(Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

#[cfg_attr(
    not(any(feature = "metrics", feature = "redis")),
    allow(dead_code, reason = "only metrics and connections are read more often than they are written")
)]
impl<T> RwLock<T> {
    #[cfg(feature = "redis")]
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
