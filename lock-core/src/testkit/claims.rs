//! Makes claims without a manager.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Claim, Mode, Queue};
use crate::error::{LockError, LockErrorKind, Result};
use crate::key::Key;
use crate::owner::{Identity, Owner, OwnerRecord, OwnerSource};

/// Creates claims without a manager. Each claim has a fresh owner. Make a new claim for each grant.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::key::Key;
/// use lock_core::testkit::Claims;
///
/// let claims = Claims::new()?;
/// let key = Key::new("order:42")?;
/// let (first, second) = (claims.exclusive(&key, Duration::from_secs(5)), claims.exclusive(&key, Duration::from_secs(5)));
/// assert_ne!(first.owner, second.owner);
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Debug)]
pub struct Claims {
    owners: OwnerSource,
    identity: Arc<Identity>,
}

impl Claims {
    /// Returns a source of claims. The owners of each source have a different random part.
    ///
    /// # Errors
    /// [`Unavailable`](LockErrorKind::Unavailable) when the operating system returns no random bytes.
    pub fn new() -> Result<Self> {
        let owners = OwnerSource::new().map_err(|error| {
            let detail = "the operating system gives no random bytes";
            LockError::new(LockErrorKind::Unavailable, detail).permanent().with_source(error)
        })?;
        Ok(Self { owners, identity: Arc::new(Identity::of_this_process("testkit")) })
    }

    /// Returns a fresh owner.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owners.mint()
    }

    /// Returns a claim of a fresh owner.
    #[must_use]
    pub fn claim(&self, key: &Key, mode: Mode, queue: Queue, ttl: Duration) -> Claim {
        let record = OwnerRecord::new(Arc::clone(&self.identity), None);
        Claim { mode, queue, ..Claim::new(key.clone(), self.owner(), ttl, record) }
    }

    /// Returns an exclusive, barging claim of a fresh owner.
    #[must_use]
    pub fn exclusive(&self, key: &Key, ttl: Duration) -> Claim {
        self.claim(key, Mode::Exclusive, Queue::Barging, ttl)
    }

    /// Returns a claim of a fresh owner on all of `keys`. The keys are sorted, and duplicates are removed.
    ///
    /// # Panics
    /// Panics when `keys` is empty.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use lock_core::backend::Queue;
    /// use lock_core::key::Key;
    /// use lock_core::testkit::Claims;
    ///
    /// let keys = [Key::new("b")?, Key::new("a")?, Key::new("b")?];
    /// let claim = Claims::new()?.all(keys, Queue::Barging, Duration::from_secs(5));
    /// assert_eq!(claim.keys().map(Key::as_str).collect::<Vec<_>>(), ["a", "b"]);
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    #[must_use]
    pub fn all(&self, keys: impl IntoIterator<Item = Key>, queue: Queue, ttl: Duration) -> Claim {
        let mut keys: Vec<Key> = keys.into_iter().collect();
        keys.sort_by(|first, second| first.as_str().cmp(second.as_str()));
        keys.dedup();
        let (first, more) = keys.split_first().expect("at least one key");
        Claim { more: more.into(), ..self.claim(first, Mode::Exclusive, queue, ttl) }
    }
}
