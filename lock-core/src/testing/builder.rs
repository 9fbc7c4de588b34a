//! Configures a manager for tests.

use std::sync::Arc;
use std::time::Duration;

use super::history::History;
use super::locks::TestLocks;
use super::store::TestStore;
use crate::error::Result;
use crate::manager::LockManager;
use crate::manager::ManagerBuilder;
use crate::options::Profile;

/// Configures a [`TestLocks`].
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::testing::TestLocks;
/// use lock_core::{Profile, strategy};
///
/// let locks = TestLocks::builder()
///     .namespace("shop")
///     .ttl(Duration::from_secs(5))
///     .profile("checkout", Profile::new().strategy(strategy::fail_fast()))
///     .build();
/// locks.validate(["checkout"])?;
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct TestLocksBuilder {
    store: TestStore,
    builder: ManagerBuilder,
}

impl TestLocksBuilder {
    pub(super) fn new() -> Self {
        let store = TestStore::default();
        Self { builder: ManagerBuilder::new(Arc::new(store.clone())), store }
    }

    /// Sets the namespace, like [`ManagerBuilder::namespace`]. Every [`TestHolder`](super::TestHolder) uses it too.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.with(|builder| builder.namespace(namespace))
    }

    /// Sets the default ttl, like [`ManagerBuilder::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|builder| builder.ttl(ttl))
    }

    /// Adds a profile, like [`ManagerBuilder::profile`].
    pub fn profile(self, name: impl Into<String>, profile: Profile) -> Self {
        self.with(|builder| builder.profile(name, profile))
    }

    /// Changes any other setting of the [`ManagerBuilder`]. If a program configures its builder in a function, its
    /// tests can pass this function here.
    pub fn with(mut self, change: impl FnOnce(ManagerBuilder) -> ManagerBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Makes the manager.
    ///
    /// # Panics
    /// Panics when [`ManagerBuilder::build`] returns an error.
    #[track_caller]
    #[must_use]
    pub fn build(self) -> TestLocks {
        let Self { store, builder } = self;
        let manager = built(builder.build());
        // The other process uses the memory store directly, so the faults of the test do not affect it.
        let other = LockManager::builder(store.memory.clone()).service("another process");
        let other = built(other.namespace(manager.engine().namespace.clone()).build());
        let history = History::default();
        for (manager, elsewhere) in [(&manager, false), (&other, true)] {
            manager.engine().observer.events.show(history.scribe(elsewhere));
        }
        TestLocks { store, manager, other, history }
    }
}

impl TestLocks {
    /// Makes a manager with its own store.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder, which can set a namespace, profiles or defaults.
    pub fn builder() -> TestLocksBuilder {
        TestLocksBuilder::new()
    }
}

impl Default for TestLocks {
    fn default() -> Self {
        Self::new()
    }
}

#[track_caller]
fn built(manager: Result<LockManager>) -> LockManager {
    manager.unwrap_or_else(|error| panic!("{error}"))
}
