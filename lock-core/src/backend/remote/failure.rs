//! Defines [`Failure`]: a failure of a store on a network, before it is converted to the error of one caller.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::error::{LockError, LockErrorKind};
use crate::key::Key;

/// Whether another try may help, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    Temporary,
    /// Only a change of the server helps, such as another certificate. A running manager waits for the change. A store
    /// that is connecting reports the failure at once.
    Settled,
    /// The failure may be over later, but not within the time that a call waits.
    Lasting,
    Permanent,
}

/// A failure that any number of callers can receive.
///
/// `R` is the type of the reaction of the store's connection to the failure.
///
/// A failure is *in doubt* if the request may have been executed. Then the claim must be released, because it may have
/// been granted.
#[derive(Clone, Debug)]
pub(crate) struct Failure<R> {
    kind: LockErrorKind,
    outlook: Outlook,
    /// Whether the request may have been executed.
    doubt: bool,
    text: Cow<'static, str>,
    /// The key that caused the failure, for a request for several keys.
    key: Option<Key>,
    /// The time after which another attempt is useful, if the server has announced it.
    retry_after: Option<Duration>,
    pub(crate) reaction: R,
}

impl<R: Default> Failure<R> {
    /// Creates the failure of a request that was not executed. The failure is temporary if the store is unavailable,
    /// otherwise permanent.
    pub(crate) fn new(kind: LockErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        let outlook = match kind {
            // Only an outage may be over at the next try. `temporary` and `permanent` mark the exceptions.
            LockErrorKind::Unavailable => Outlook::Temporary,
            _ => Outlook::Permanent,
        };
        let (text, reaction) = (text.into(), R::default());
        Self { kind, outlook, doubt: false, text, key: None, retry_after: None, reaction }
    }

    /// Returns the failure of a call whose deadline passed after its request was sent.
    pub(crate) fn no_answer(deadline: Duration) -> Self {
        Self::new(LockErrorKind::Unavailable, format!("no answer within {deadline:?}")).in_doubt()
    }
}

impl<R> Failure<R> {
    /// Marks a failure that happened before any request was sent, such as the failure of a dial. No request can have
    /// been executed.
    #[must_use]
    pub(crate) fn before_any_request(self) -> Self {
        Self { doubt: false, ..self }
    }

    /// Marks the failure of a call that was interrupted. Its request may have been executed, whatever happened to the
    /// connection later.
    #[must_use]
    pub(crate) fn in_doubt(self) -> Self {
        Self { doubt: true, ..self }
    }

    #[must_use]
    pub(crate) fn temporary(self) -> Self {
        Self { outlook: Outlook::Temporary, ..self }
    }

    /// Marks a failure that only a change of the server ends.
    #[must_use]
    pub(crate) fn settled(self) -> Self {
        Self { outlook: Outlook::Settled, ..self }
    }

    /// Marks a failure that is temporary, but lasts longer than a call can wait. Callers receive it at once.
    #[must_use]
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "only Postgres has such failures"))]
    pub(crate) fn lasting(self) -> Self {
        Self { outlook: Outlook::Lasting, ..self }
    }

    #[must_use]
    pub(crate) fn permanent(self) -> Self {
        Self { outlook: Outlook::Permanent, ..self }
    }

    #[must_use]
    pub(crate) fn with_reaction(self, reaction: R) -> Self {
        Self { reaction, ..self }
    }

    /// Adds the name of the server, for a store with several servers.
    #[must_use]
    pub(crate) fn naming(self, server: impl fmt::Display) -> Self {
        Self { text: format!("{server}: {}", self.text).into(), ..self }
    }

    /// Adds the key that caused the failure, if the failure has none.
    #[must_use]
    pub(crate) fn on_key(self, key: &Key) -> Self {
        Self { key: self.key.or_else(|| Some(key.clone())), ..self }
    }

    /// Adds the time after which another attempt is useful.
    #[cfg(feature = "redlock")]
    #[must_use]
    pub(crate) fn with_retry_after(self, after: Duration) -> Self {
        Self { retry_after: Some(after), ..self }
    }

    /// Appends to the error text how often a connection was tried, and within which time.
    #[must_use]
    pub(crate) fn after(self, tries: u32, limit: Duration) -> Self {
        Self { text: format!("{} (tried {tries} times within {limit:?})", self.text).into(), ..self }
    }

    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only Redis asks for it"))]
    pub(crate) fn kind(&self) -> LockErrorKind {
        self.kind
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the request may have been executed.
    #[cfg(feature = "etcd")]
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubt
    }

    pub(crate) fn is_permanent(&self) -> bool {
        self.outlook == Outlook::Permanent
    }

    /// Returns whether another try is useless before the server or the settings are changed.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.outlook, Outlook::Settled | Outlook::Permanent)
    }

    pub(crate) fn is_lasting(&self) -> bool {
        self.outlook == Outlook::Lasting
    }

    /// Returns whether a caller that waits for a connection must receive the failure at once, because the failure
    /// outlasts the caller's deadline.
    pub(crate) fn ends_waits(&self) -> bool {
        matches!(self.outlook, Outlook::Lasting | Outlook::Permanent)
    }

    /// Returns the error for a caller. `store` names the store and its address.
    pub(crate) fn error_of(&self, store: impl fmt::Display) -> LockError {
        let doubt = if self.doubt { "; the request may have been executed" } else { "" };
        let error = LockError::new(self.kind, format!("{store}: {}{doubt}", self.text))
            .with_retry_after(self.retry_after);
        let error = match &self.key {
            Some(key) => error.with_key(key),
            None => error,
        };
        // A request whose failure is not in doubt acquired no lock, so the caller has nothing to release.
        let error = if self.doubt { error } else { error.nothing_taken() };
        if self.is_permanent() { error.permanent() } else { error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: LockErrorKind) -> Failure<()> {
        Failure::new(kind, "it failed")
    }

    #[test]
    fn doubt_is_told_and_leaves_the_claim_to_be_released() {
        let cut_off = failure(LockErrorKind::Unavailable).in_doubt();
        let table = [
            (failure(LockErrorKind::Unavailable), false, "store at h: it failed"),
            (cut_off.clone(), true, "store at h: it failed; the request may have been executed"),
            (Failure::no_answer(Duration::from_secs(1)), true, "no answer within 1s; the request may"),
            (cut_off.before_any_request(), false, "store at h: it failed"),
        ];
        for (failure, ambiguous, text) in table {
            let error = failure.error_of("store at h");
            assert_eq!(error.is_ambiguous(), ambiguous, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn only_an_unavailable_store_is_asked_again() {
        let table = [
            (failure(LockErrorKind::Unavailable), true),
            (failure(LockErrorKind::Unavailable).permanent(), false),
            (failure(LockErrorKind::Unavailable).permanent().temporary(), true),
            (failure(LockErrorKind::Unavailable).lasting(), true),
            (failure(LockErrorKind::Unsupported), false),
        ];
        for (failure, temporary) in table {
            assert_eq!(failure.is_permanent(), !temporary);
            assert!(failure.ends_waits() || temporary);
            assert_eq!(failure.naming("h:1").error_of("store").is_temporary(), temporary);
        }
    }
}
