//! Defaults of a manager, and named sets of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{LockError, LockErrorKind, Result};
use crate::strategy::{self, Strategy};

/// A named set of defaults: what a request does not say itself comes from its profile, then from the manager.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use lock_core::{Profile, strategy};
///
/// let checkout = Profile::new().ttl(Duration::from_millis(500)).strategy(strategy::fail_fast());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Profile {
    pub(crate) ttl: Option<Duration>,
    pub(crate) strategy: Option<Arc<dyn Strategy>>,
    pub(crate) wait: Option<Duration>,
    pub(crate) renew: Option<bool>,
}

impl Profile {
    /// A profile that says nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lease; default 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// What to do when the key is held; default [`strategy::retry()`].
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Some(Arc::new(strategy));
        self
    }

    /// How long a bounded strategy waits; default: as long as the strategy says.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.wait = Some(limit);
        self
    }

    /// Whether the lease is renewed; default yes.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = Some(renew);
        self
    }
}

/// The defaults of one manager.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub(crate) ttl: Duration,
    pub(crate) strategy: Arc<dyn Strategy>,
    pub(crate) wait: Option<Duration>,
    pub(crate) renew: bool,
    pub(crate) named: BTreeMap<String, Profile>,
}

impl Profiles {
    /// The lease when nobody says otherwise: a holder that crashed keeps others out for at most so long.
    pub(crate) const DEFAULT_TTL: Duration = Duration::from_secs(10);

    pub(crate) fn get(&self, name: &str) -> Result<&Profile> {
        self.named.get(name).ok_or_else(|| {
            let known: Vec<_> = self.named.keys().map(String::as_str).collect();
            let detail = if known.is_empty() {
                format!("profile `{name}` is not there: the manager has none, add it with `.profile(\"{name}\", ..)`")
            } else {
                format!("profile `{name}` is not there; the manager has: {}", known.join(", "))
            };
            LockError::new(LockErrorKind::InvalidRequest, detail)
        })
    }
}

impl Default for Profiles {
    fn default() -> Self {
        Self {
            ttl: Self::DEFAULT_TTL,
            strategy: Arc::new(strategy::retry()),
            wait: None,
            renew: true,
            named: BTreeMap::new(),
        }
    }
}
