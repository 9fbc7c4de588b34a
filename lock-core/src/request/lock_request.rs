//! A request for a lock.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::MoreKeys;
use crate::error::{LockError, LockErrorKind, Result};
use crate::guard::OnLost;
use crate::hub::Hub;
use crate::key::{IntoKey, Key};
use crate::kind::Kind;
use crate::options::Options;
use crate::strategy::Backoff;

/// A request for a lock. Made by [`LockManager::lock`](crate::LockManager::lock) and its siblings. It does nothing
/// until [`acquire`](Self::acquire), [`try_acquire`](Self::try_acquire), [`run`](Self::run) or
/// [`run_with`](Self::run_with).
///
/// What is not set here comes from the [profile](Self::profile), then from the manager. A request of a task that
/// already holds the key enters that grant again, with the options of the grant: its own ttl, bounds and label do not
/// count.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use std::time::Duration;
/// use lock_core::{LockManager, strategy};
///
/// let locks = LockManager::in_memory();
/// let guard = locks
///     .lock("order:42")
///     .ttl(Duration::from_millis(500))
///     .strategy(strategy::retry().within(Duration::from_millis(100)))
///     .label("pay")
///     .acquire()
///     .await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until `acquire`, `try_acquire`, `run` or `run_with`"]
pub struct LockRequest {
    pub(super) hub: Arc<Hub>,
    pub(super) key: Result<Key, BadKey>,
    pub(super) more: MoreKeys,
    pub(super) kind: Kind,
    pub(super) options: Options,
    pub(super) backoff: Option<Backoff>,
    pub(super) fencing: bool,
    pub(super) reentrant: bool,
    pub(super) renew_every: Option<Duration>,
    pub(super) max_hold: Option<Duration>,
    pub(super) min_hold: Option<Duration>,
    pub(super) max_waiters: Option<usize>,
    pub(super) label: Option<Cow<'static, str>>,
    pub(super) template: Option<Cow<'static, str>>,
    pub(super) profile: Option<Cow<'static, str>>,
    pub(super) on_lost: OnLost,
}

/// Writes what is requested, and which options are set.
impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("LockRequest");
        match &self.key {
            Ok(key) => text.field(
                "key",
                &self.hub.engine.observer.redact_key(key, self.template.as_deref()).to_string(),
            ),
            Err(bad) => text.field("key", &format_args!("{:?}", bad.kind)),
        };
        if !self.more.is_empty() {
            text.field("more_keys", &self.more.len());
        }
        text.field("kind", &self.kind);
        if let Some(ttl) = &self.options.ttl {
            text.field("ttl", ttl);
        }
        if let Some(strategy) = &self.options.strategy {
            text.field("strategy", &strategy.name());
        }
        if let Some(wait) = &self.options.wait {
            text.field("wait", wait);
        }
        text.finish()
    }
}

/// Why a key was refused. Kept until the request is made.
#[derive(Debug, Clone)]
pub(super) struct BadKey {
    pub(super) kind: LockErrorKind,
    pub(super) text: Arc<str>,
}

impl LockRequest {
    pub(crate) fn new(hub: Arc<Hub>, key: impl IntoKey, kind: Kind) -> Self {
        let key = key.into_key().map(|key| key.into_namespace(&hub.engine.namespace));
        Self::with_key(hub, key, MoreKeys::default(), kind)
    }

    /// A request for all of `keys`, in one order and none twice, so that two requests never wait for each other.
    pub(crate) fn all<K: IntoKey>(hub: Arc<Hub>, keys: impl IntoIterator<Item = K>) -> Self {
        let keys: Result<Vec<Key>> = keys
            .into_iter()
            .map(|key| key.into_key().map(|key| key.in_namespace(&hub.engine.namespace)))
            .collect();
        let (key, more) = match keys {
            Ok(mut keys) => {
                keys.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
                keys.dedup();
                let mut keys = keys.into_iter();
                let none = || {
                    LockError::new(LockErrorKind::InvalidRequest, "`all` was given no key: give at least one")
                };
                (keys.next().ok_or_else(none), keys.collect())
            }
            Err(error) => (Err(error), MoreKeys::default()),
        };
        Self::with_key(hub, key, more, Kind::Reentrant)
    }

    fn with_key(hub: Arc<Hub>, key: Result<Key>, more: MoreKeys, kind: Kind) -> Self {
        Self {
            hub,
            key: key.map_err(|error| BadKey { kind: error.kind(), text: error.detail().into() }),
            more,
            kind,
            options: Options::default(),
            backoff: None,
            fencing: false,
            reentrant: true,
            renew_every: None,
            max_hold: None,
            min_hold: None,
            max_waiters: None,
            label: None,
            template: None,
            profile: None,
            on_lost: OnLost::default(),
        }
    }
}
