//! The latch that a program holds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::retry::retry;
use super::wait::Wait;
use crate::backend::{LatchState, LatchStep};
use crate::error::{LockError, LockErrorKind, Result};
use crate::hub::Hub;
use crate::key::{IntoKey, Key};

/// A count-down latch over all processes: set once to a count, counted down, and open from zero on for everybody who
/// waits. Made by [`LockManager::latch`](crate::LockManager::latch); does nothing until one of its steps is taken.
///
/// Nobody holds a latch: there is no guard, dropping it does nothing, and clones are the same latch, as are latches of
/// the same key in other processes. It counts *down* only, and does not close again; for another round take another
/// key, such as `deploy:43`. Nothing deletes a latch: it is forgotten when its [`ttl`](Self::ttl) is over. A key is a
/// lock's or a latch's: one that is in use as the other may be refused as
/// [`InvalidRequest`](LockErrorKind::InvalidRequest).
///
/// # The lease
/// A latch lives in the store on a lease of its [`ttl`](Self::ttl), like a lock, so that nothing is left of a job that
/// died. Setting it, counting it down and waiting for it each make it live for another ttl. When nobody did any of that
/// for so long, it is forgotten, **open or not**, and is as if it had never been set. So the ttl is at least
/// - the longest time in which nobody waits and nobody counts down, and
/// - the longest time after the opening in which somebody may yet come to wait.
///
/// # Retries count once
/// A store may do what it was asked although its answer is lost. [`set`](Self::set) and
/// [`count_down`](Self::count_down) then ask again by themselves, under the name that they asked under before, so that
/// one call never counts twice. Two calls count twice: a worker that crashes after it counted must not count again when
/// it is started anew.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
/// use lock_core::LockManager;
///
/// let locks = LockManager::in_memory();
/// let parts = locks.latch("import:42:parts").ttl(Duration::from_secs(60));
/// parts.set(3).await?;
/// for _part in 0..3 {
///     let parts = parts.clone(); // or, in another process, `locks.latch("import:42:parts")`
///     tokio::spawn(async move {
///         // Imports the part.
///         parts.count_down().await
///     });
/// }
/// parts.wait_within(Duration::from_secs(30)).await?;
/// assert_eq!(parts.count().await?, Some(0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a latch does nothing until it is set, counted down or waited for"]
pub struct CountDownLatch {
    hub: Arc<Hub>,
    key: Result<Key, BadKey>,
    ttl: Duration,
}

/// Why a key was refused; kept until a step is taken.
#[derive(Clone, Debug)]
struct BadKey {
    kind: LockErrorKind,
    text: Arc<str>,
}

impl CountDownLatch {
    pub(crate) fn new(hub: Arc<Hub>, key: impl IntoKey) -> Self {
        let key = key.into_key().map(|key| key.in_namespace(&hub.engine.namespace));
        let key = key.map_err(|error| BadKey { kind: error.kind(), text: error.detail().into() });
        let ttl = hub.engine.profiles.defaults.ttl();
        Self { hub, key, ttl }
    }

    /// The lease: how long the latch is kept after the last step that anybody took. A shorter one than the latch has
    /// does not shorten it. Default: the manager's, 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the latch to `count`, if it is not set: true when this call set it. Otherwise it stays as it is, whatever
    /// its count, so that several processes may all set it and one of them does.
    ///
    /// # Errors
    /// - [`InvalidRequest`](LockErrorKind::InvalidRequest): `count` is 0, or the store cannot hold the ttl;
    ///   [`InvalidKey`](LockErrorKind::InvalidKey); [`Unsupported`](LockErrorKind::Unsupported) on a store without
    ///   latches. All before any I/O.
    /// - [`Unavailable`](LockErrorKind::Unavailable), [`NoQuorum`](LockErrorKind::NoQuorum): the store did not answer,
    ///   in spite of retries for up to the ttl. The latch may be set.
    /// - [`Lost`](LockErrorKind::Lost): the store had forgotten the latch before it answered.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown): also where the shutdown ended the retries; then the latch may be
    ///   set.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the latch set or not. Calling again sets it if it is not, but cannot tell that it was
    /// this process that had.
    #[doc(alias = "trySetCount")]
    pub async fn set(&self, count: u32) -> Result<bool> {
        let key = self.checked()?;
        if count == 0 {
            let detail = "a latch set to 0 would be open from the start: set it to at least 1";
            return Err(LockError::new(LockErrorKind::InvalidRequest, detail).with_latch(key));
        }
        let step = LatchStep::Set { count, owner: self.hub.engine.owners.mint(), ttl: self.ttl };
        match retry(&self.hub.engine, key, &step, self.ttl).await {
            Ok(LatchState::Set { by_us, .. }) => {
                // Those of this process who came before it was set: the store did not know of them.
                self.hub.engine.latches.opened(key.as_str());
                Ok(by_us)
            }
            Ok(LatchState::Unset) => Err(not_set(LockErrorKind::Lost).with_latch(key)),
            Err(error) => Err(error.with_latch(key)),
        }
    }

    /// Counts down by one, and says how many are left: 0 is open. Counting down an open latch changes nothing and is no
    /// error.
    ///
    /// # Errors
    /// - [`InvalidRequest`](LockErrorKind::InvalidRequest): the latch is not set, or was forgotten; nothing was counted.
    /// - Otherwise as [`set`](Self::set). An error that [is temporary](LockError::is_temporary) leaves it open whether
    ///   the latch was counted down; a further call may count a second time.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the latch counted down or not, at most once.
    #[doc(alias = "countDown")]
    pub async fn count_down(&self) -> Result<u32> {
        let key = self.checked()?;
        let step = LatchStep::CountDown { owner: self.hub.engine.owners.mint(), ttl: self.ttl };
        match retry(&self.hub.engine, key, &step, self.ttl).await {
            Ok(LatchState::Set { left, .. }) => {
                if left == 0 {
                    self.hub.engine.latches.opened(key.as_str());
                }
                Ok(left)
            }
            Ok(LatchState::Unset) => Err(not_set(LockErrorKind::InvalidRequest).with_latch(key)),
            Err(error) => Err(error.with_latch(key)),
        }
    }

    /// How many have yet to count down: 0 is open, `None` not set or forgotten. Asks once, and does not keep the latch
    /// alive.
    ///
    /// # Errors
    /// As [`set`](Self::set), but at once when the store fails.
    ///
    /// # Cancel safety
    /// Cancel safe.
    #[doc(alias = "getCount")]
    pub async fn count(&self) -> Result<Option<u32>> {
        let key = self.checked()?;
        self.hub.engine.check_open()?;
        match self.hub.engine.store.latch(key, &LatchStep::Look).await {
            Ok(LatchState::Set { left, .. }) => Ok(Some(left)),
            Ok(LatchState::Unset) => Ok(None),
            Err(error) => Err(error.with_latch(key)),
        }
    }

    /// Waits until the latch is open, for as long as it takes.
    ///
    /// A latch that nobody has set yet is waited for too, so a job may start before the one that counts for it; one
    /// line in the log says so every 30 s. **A latch that was forgotten after it had opened looks the same**: where
    /// somebody may come that late, use [`wait_within`](Self::wait_within).
    ///
    /// The wait keeps the latch alive. It is told when the latch opens, and asks by itself every third of the ttl, at
    /// most every 2/3 s, so that being told too late, or not at all, costs no more than that. While the store cannot be
    /// reached it goes on, and says so in the log every 30 s.
    ///
    /// # Errors
    /// - [`Lost`](LockErrorKind::Lost): the latch was set when this wait asked before, and is not any more, because the
    ///   store could not be asked for longer than the lease. It may have been open meanwhile.
    /// - A failure of the store that trying again cannot mend, such as a wrong password.
    /// - [`ShuttingDown`](LockErrorKind::ShuttingDown).
    /// - The latch itself, before any I/O, as [`set`](Self::set).
    ///
    /// # Panics
    /// In a tokio runtime without its timer; a store on the network needs the I/O driver too (`enable_all`).
    ///
    /// # Cancel safety
    /// Cancel safe: a wait that is dropped counts nothing, and the store forgets it.
    #[doc(alias = "await")]
    pub async fn wait(&self) -> Result<()> {
        self.wait_up_to(None).await
    }

    /// As [`wait`](Self::wait), for up to `limit`, after which it asks once more. A limit of zero asks once.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); and, when the limit is over, [`TimedOut`](LockErrorKind::TimedOut), or the failure of
    /// the store where that could not be asked.
    ///
    /// # Panics
    /// As [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    pub async fn wait_within(&self, limit: Duration) -> Result<()> {
        self.wait_up_to(Some(limit)).await
    }

    async fn wait_up_to(&self, limit: Option<Duration>) -> Result<()> {
        let key = self.checked()?;
        let waited = Wait::new(&self.hub.engine, key, self.ttl, limit).run().await;
        waited.map_err(|error| error.with_latch(key))
    }

    /// The key; refuses what is beyond the store, before any I/O.
    fn checked(&self) -> Result<&Key> {
        let key = self.key.as_ref().map_err(|bad| LockError::new(bad.kind, bad.text.to_string()))?;
        self.check().map_err(|error| error.with_latch(key))?;
        Ok(key)
    }

    fn check(&self) -> Result<()> {
        let (store, ttl) = (&self.hub.engine.capability, self.ttl);
        self.hub.engine.check_process()?;
        if !store.latches {
            let detail = format!("the {} store has no count-down latches in this version", store.store);
            return Err(LockError::new(LockErrorKind::Unsupported, detail));
        }
        store.check_ttl(ttl)
    }
}

fn not_set(kind: LockErrorKind) -> LockError {
    let detail = "the latch is not set: `set` comes first, and a latch is forgotten when nobody has waited or counted \
                  for its ttl";
    LockError::new(kind, detail)
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut latch = f.debug_struct("CountDownLatch");
        match &self.key {
            Ok(key) => latch.field("key", &key.as_str()),
            Err(bad) => latch.field("key", &bad.kind),
        };
        latch.field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
