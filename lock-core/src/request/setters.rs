//! Sets the options of a request.

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

    /// Copies from `options` each option that this request does not set. If the request has no kind, it also gets the
    /// kind of `options`.
    pub fn options(mut self, options: &Profile) -> Self {
        let mut own = self.options.take().unwrap_or_default();
        own.options.kind = self.kind;
        // `take` is copied first, because `fill` skips it if the kind is already set.
        own.options.take = own.options.take.or(options.options.take);
        own.options.fill(&options.options);
        self.kind = own.options.kind;
        self.options = Some(own);
        self
    }

    /// Sets the template of the key, such as `order:<id>`. Spans and metrics show the template instead of the key,
    /// because there are many keys but few templates. The attribute and the HTTP layer set it. Default: none.
    pub fn template(mut self, template: impl Into<Cow<'static, str>>) -> Self {
        self.template = Some(template.into());
        self
    }

    /// Sets the profile that provides the options which the request does not set. Options that neither the request nor
    /// the profile sets come from the manager. If the request was made by
    /// [`LockManager::request`](crate::LockManager::request) with the kind `None`, it also gets the profile's kind. The
    /// profile is read when the lock is acquired, in the state of the last [reload](crate::LockManager#method.reload).
    /// If the name is unknown, the acquisition fails with [`InvalidRequest`](LockErrorKind::InvalidRequest).
    pub fn profile(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Sets the default strategy of an integration, such as the HTTP layer. This default applies if the request has no
    /// strategy, and its profile has no strategy, no wait and no backoff. This default takes precedence over the
    /// strategy of the manager.
    pub fn usual_strategy(mut self, strategy: impl Strategy) -> Self {
        self.usual.strategy = Some(Arc::new(strategy));
        self
    }

    /// Sets the kind. This kind takes precedence over the kind of the profile.
    #[cfg(feature = "macros")]
    pub(crate) fn of_kind(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Sets a default label. The default applies if neither the request nor its profile has a label.
    #[cfg(feature = "macros")]
    pub(crate) fn usual_label(mut self, label: &'static str) -> Self {
        self.usual.label = Some(label);
        self
    }
}
