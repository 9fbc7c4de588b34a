//! Defines the options of a layer, except its key.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use lock_core::strategy::Strategy;
use lock_core::{Kind, Profile};

use super::log::Logged;
use super::methods::Methods;
use super::policy::{OnDisconnect, OnNoRoute, OnStoreError};
use crate::answer::Answers;
use crate::hold::Hold;
use crate::in_use::UseTimes;
use crate::key::Registered;
use crate::key_limit::KeyLimit;

/// The options of a layer. The method of [`LockLayer`](crate::LockLayer) with the same name documents each option.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The options of the lock, which the layer copies to each lock request.
    pub(crate) own: Profile,
    pub(crate) kind: Option<Kind>,
    pub(crate) strategy: Option<Arc<dyn Strategy>>,
    pub(crate) wait: Option<Duration>,
    pub(crate) max_waiters: Option<usize>,
    pub(crate) label: Option<Cow<'static, str>>,
    pub(crate) profile: Option<Cow<'static, str>>,
    pub(crate) hold: Hold,
    pub(crate) on_disconnect: OnDisconnect,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) on_no_route: OnNoRoute,
    pub(crate) methods: Methods,
    pub(crate) skip_if: Option<SkipIf>,
    /// The largest body, in bytes, that is read before the lock is acquired.
    pub(crate) after_body: Option<usize>,
    pub(crate) max_keys: Option<usize>,
    pub(crate) key_limit: KeyLimit,
    /// The measured mean time for which a request uses its keys.
    pub(crate) use_times: UseTimes,
    /// The `Retry-After` of a refused client. If `None`, it is computed from the duration of requests.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) answers: Answers,
    pub(crate) logged: Arc<Logged>,
    /// The types that are registered for `<ext.Name>`.
    pub(crate) extensions: Registered,
}

impl Options {
    /// Returns how many keys the requests may use at once. A process usually serves fewer requests than the default.
    pub(crate) fn max_keys(&self) -> usize {
        self.max_keys.unwrap_or(10_000)
    }

    /// Returns whether a request with this head is locked.
    pub(crate) fn lock(&self, parts: &Parts) -> bool {
        self.methods.include(&parts.method) && !self.skip_if.as_ref().is_some_and(|skip| (skip.0)(parts))
    }
}

#[derive(Clone)]
pub(crate) struct SkipIf(pub(crate) Arc<dyn Fn(&Parts) -> bool + Send + Sync>);

impl fmt::Debug for SkipIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SkipIf(..)")
    }
}
