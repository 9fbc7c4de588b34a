//! Defines [`LockRequest`], a request for a lock.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::MoreKeys;
use crate::error::{LockError, LockErrorKind, Result};
use crate::hub::Hub;
use crate::key::{IntoKey, Key};
use crate::kind::Kind;
use crate::options::{Profile, Usual};
use crate::strategy::Strategy;

/// A request for a lock. [`LockManager::lock`](crate::LockManager::lock) and similar methods make one. A request does
/// nothing until [`acquire`](Self::acquire), [`try_acquire`](Self::try_acquire), [`run`](Self::run) or
/// [`run_with`](Self::run_with) is called.
///
/// Options that the request does not set come from the [profile](Self::profile), or else from the manager. If the task
/// already holds the key, the request enters the existing grant, with the options of that grant. The ttl, the limits
/// and the label of the request are then ignored.
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
    pub(super) key: Result<Key, Arc<LockError>>,
    pub(super) more: MoreKeys,
    /// Whether the request was made for several keys. This stays `true` if only one key remains without duplicates,
    /// because the lock must still be exclusive.
    pub(super) of_all: bool,
    /// The kind of the lock. `None` stands for the kind of the profile.
    pub(super) kind: Option<Kind>,
    /// The options that the request itself sets. These options are boxed, because most requests set no options, and a
    /// request is moved several times.
    pub(super) options: Option<Box<Profile>>,
    /// The defaults of the attribute or the HTTP layer. The defaults apply to options that neither the request nor its
    /// profile sets.
    pub(super) usual: Usual,
    pub(super) template: Option<Cow<'static, str>>,
    pub(super) profile: Option<Cow<'static, str>>,
}

/// Writes the key, and the options that the request sets.
impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("LockRequest");
        match &self.key {
            Ok(key) => text.field(
                "key",
                &self.hub.engine.observer.redact_key(key, self.template.as_deref()).to_string(),
            ),
            Err(bad) => text.field("key", &format_args!("{:?}", bad.kind())),
        };
        if !self.more.is_empty() {
            text.field("more_keys", &self.more.len());
        }
        if self.kind.is_some() || self.profile.is_none() {
            text.field("kind", &self.kind.unwrap_or_default());
        }
        let Some(Profile { options }) = self.options.as_deref() else { return text.finish() };
        if let Some(ttl) = &options.ttl {
            text.field("ttl", ttl);
        }
        if let Some(strategy) = &options.strategy {
            text.field("strategy", &strategy.name());
        }
        if let Some(wait) = &options.wait {
            text.field("wait", wait);
        }
        text.finish()
    }
}

impl LockRequest {
    /// Returns the key with its namespace, or an error if the key is invalid.
    pub(crate) fn key(&self) -> Result<&Key> {
        self.key.as_ref().map_err(|error| error.without_source())
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Returns a mutable reference to the options that the request itself sets.
    pub(super) fn own_options(&mut self) -> &mut Profile {
        self.options.get_or_insert_default()
    }

    /// Returns the ttl of the request, or else of the manager. The ttl of a profile is ignored.
    pub(crate) fn own_ttl(&self) -> Duration {
        self.options
            .as_ref()
            .and_then(|own| own.options.ttl)
            .unwrap_or_else(|| self.hub.engine.profiles.defaults.ttl())
    }

    pub(crate) fn new(hub: Arc<Hub>, key: impl IntoKey, kind: Option<Kind>) -> Self {
        let key = key.into_key().map(|key| key.into_namespace(&hub.engine.namespace));
        Self::with_key(hub, key, kind)
    }

    /// Makes a request for all of `keys`. The keys are sorted and deduplicated, so that two requests never deadlock.
    pub(crate) fn for_all<K: IntoKey>(hub: Arc<Hub>, keys: impl IntoIterator<Item = K>) -> Self {
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
        Self { more, of_all: true, ..Self::with_key(hub, key, None) }
    }

    fn with_key(hub: Arc<Hub>, key: Result<Key>, kind: Option<Kind>) -> Self {
        Self {
            hub,
            key: key.map_err(Arc::new),
            more: MoreKeys::default(),
            of_all: false,
            kind,
            options: None,
            usual: Usual::default(),
            template: None,
            profile: None,
        }
    }
}
