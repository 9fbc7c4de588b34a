//! The options of a request.

use std::borrow::Cow;
use std::sync::Arc;

use super::lock_request::LockRequest;
#[cfg(doc)]
use crate::error::LockErrorKind;
#[cfg(feature = "macros")]
use crate::kind::Kind;
use crate::options::Profile;
use crate::strategy::Strategy;

impl LockRequest {
    crate::option_setters!(all self => self.own_options());

    /// Sets each option that `options` sets and this request does not set yet, with the kind of a request that names
    /// none.
    pub fn options(mut self, options: &Profile) -> Self {
        let mut own = self.options.take().unwrap_or_default();
        own.options.kind = self.kind;
        // If the kind is set already, `take` would not be filled in.
        own.options.take = own.options.take.or(options.options.take);
        own.options.fill(&options.options);
        self.kind = own.options.kind;
        self.options = Some(own);
        self
    }

    /// Sets the template that the key was rendered from, such as `order:<id>`. Spans and metrics show it, because there
    /// are few templates and many keys. The attribute and the HTTP layer set it. Default: none.
    pub fn template(mut self, template: impl Into<Cow<'static, str>>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Takes each option that the request does not set from the profile with this name, or else from the manager. A
    /// request of [`LockManager::request`](crate::LockManager::request) with `None` for its kind also takes the
    /// profile's kind. The profile is looked up when the lock is acquired, in the state of the last
    /// [reload](crate::LockManager#method.reload). An unknown name fails with
    /// [`InvalidRequest`](LockErrorKind::InvalidRequest) when the lock is acquired.
    pub fn profile(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Sets the strategy of requests that have none, and whose profile has neither a strategy nor a wait nor a backoff.
    /// It comes before the strategy of the manager: for a layer with a default of its own.
    pub fn usual_strategy(mut self, strategy: impl Strategy) -> Self {
        self.usual.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets the kind, which takes precedence over that of the profile.
    #[cfg(feature = "macros")]
    pub(crate) fn of_kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets the label of requests that have none, and whose profile has none.
    #[cfg(feature = "macros")]
    pub(crate) fn usual_label(mut self, label: &'static str) -> Self {
        self.usual.label = Some(label);
        self
    }
}
