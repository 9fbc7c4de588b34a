//! Provides locks without poisoning, and checks that no code of the application runs while they are held.
//!
//! Code of the application, such as a log subscriber or a waker, may panic while one of these locks is held. Such a
//! panic must not make every later call fail. Poisoning is not needed, because the protected state is consistent
//! between any two statements.
//!
//! Code of the application should not run under these locks at all, because it may block, or call the library again,
//! which acquires the same lock. So a value of the application is moved out of the lock before it is called or dropped.
//! For this purpose, [`Mutex::with`] and [`change`] return the result of their closure. All calls of such code use
//! [`foreign`]. With debug assertions, each of these calls checks that its thread holds none of the locks.

pub(crate) mod foreign;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError};

pub(crate) use foreign::{Notify, OutsideOfLocks, change, survives, survives_polls};

use foreign::Locked;

/// [`std::sync::Mutex`] without poisoning.
#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        Guard { guard: self.0.lock().unwrap_or_else(PoisonError::into_inner), _locked: Locked::new() }
    }

    /// Calls `look` with the value under the lock, and returns the result. `look` must return every removed value whose
    /// call or drop may run code of the application.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.lock())
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
#[derive(Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    #[cfg(feature = "_remote")]
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> Guard<sync::RwLockReadGuard<'_, T>> {
        Guard { guard: self.0.read().unwrap_or_else(PoisonError::into_inner), _locked: Locked::new() }
    }

    pub(crate) fn write(&self) -> Guard<sync::RwLockWriteGuard<'_, T>> {
        Guard { guard: self.0.write().unwrap_or_else(PoisonError::into_inner), _locked: Locked::new() }
    }

    /// Does the same as [`Mutex::with`], under the write lock.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.write())
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(crate) type MutexGuard<'a, T> = Guard<sync::MutexGuard<'a, T>>;

/// The guard of a lock. While the guard lives, the lock counts as held by this thread.
pub(crate) struct Guard<G> {
    guard: G,
    _locked: Locked,
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Calls two functions at the same time on two threads, again and again for at most a second. Returns the number of
/// rounds.
#[cfg(all(test, feature = "redlock"))]
pub(crate) fn in_step(rounds: usize, one: impl Fn(usize) + Sync, other: impl Fn(usize) + Sync) -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use crate::clock::Clock;

    let (arrived, end, start) = (AtomicUsize::new(0), AtomicUsize::new(rounds), Clock::Suspend.now());
    let run = |each: &(dyn Fn(usize) + Sync), decides: bool| {
        for round in 0..rounds {
            if decides && Clock::Suspend.now().since(start) > Duration::from_secs(1) {
                // The end is stored before this thread counts as arrived, so the other thread reads it in the same
                // round.
                end.store(round, Ordering::Release);
            }
            arrived.fetch_add(1, Ordering::AcqRel);
            let mut looks = 0_u32;
            while arrived.load(Ordering::Acquire) < 2 * (round + 1) {
                looks += 1;
                // If no processor is free, the other thread may need the processor of this thread.
                if looks.is_multiple_of(1_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            if round >= end.load(Ordering::Acquire) {
                return;
            }
            each(round);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(&one, false));
        run(&other, true);
    });
    end.into_inner()
}
