//! Defines the error type of this crate.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::owner::OwnerRecord;

/// `Result` with [`LockError`].
pub type Result<T, E = LockError> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LockErrorKind {
    /// Another owner holds the key, and the strategy does not wait.
    Contended,
    /// Another owner held the key until the wait ended.
    TimedOut,
    /// The lock was held, and is no longer held; see [`LockError::loss_reason`].
    Lost,
    /// The store cannot be reached, or refuses the request.
    Unavailable,
    /// Fewer nodes than a majority answered whether the key is free.
    NoQuorum,
    /// Too many requests are already waiting.
    Overloaded,
    /// The key is empty or cannot be rendered.
    InvalidKey,
    /// The options of the request contradict each other, or the store cannot use a value, such as a ttl that is too
    /// short.
    InvalidRequest,
    /// This store, or this build of the library, does not support the request.
    Unsupported,
    /// No manager was installed.
    NotInstalled,
    /// A write lock was requested inside a read lock on the same key.
    Upgrade,
    /// This task already holds the key, and the request forbids entering it again.
    Reentered,
    /// The manager is shutting down.
    ShuttingDown,
}

impl LockErrorKind {
    fn text(self) -> &'static str {
        match self {
            Self::Contended => "lock is held",
            Self::TimedOut => "lock was not free in time",
            Self::Lost => "lock was lost",
            Self::Unavailable => "lock store is unavailable",
            Self::NoQuorum => "no quorum",
            Self::Overloaded => "too many requests wait for the lock",
            Self::InvalidKey => "invalid key",
            Self::InvalidRequest => "invalid request",
            Self::Unsupported => "unsupported",
            Self::NotInstalled => "no lock manager",
            Self::Upgrade => "read lock cannot become a write lock",
            Self::Reentered => "lock is already held by this task",
            Self::ShuttingDown => "lock manager is shutting down",
        }
    }
}

impl fmt::Display for LockErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The reason why a held lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LossReason {
    /// The lease expired, because renewals failed, were too late, or were disabled.
    Expired,
    /// The store reports that the grant no longer belongs to this holder.
    Taken,
    /// `max_hold` was reached.
    MaxHold,
    /// An operator released the lock by force.
    Forced,
    /// The manager shut down while the lock was held.
    ShutDown,
    /// The store's session of this process has ended, and with it every grant of the process. Only stores whose grants
    /// belong to a session report this reason.
    SessionEnded,
}

impl LossReason {
    /// All reasons. Each reason is at the index `reason as usize`.
    pub(crate) const ALL: [Self; 6] =
        [Self::Expired, Self::Taken, Self::MaxHold, Self::Forced, Self::ShutDown, Self::SessionEnded];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Expired => "its lease ran out before a renewal was answered",
            Self::Taken => "the store reports that it belongs to somebody else or to nobody",
            Self::MaxHold => "it was held for `max_hold`",
            Self::Forced => "it was released by force",
            Self::ShutDown => "the manager shut down",
            Self::SessionEnded => "the session of this process at the store ended",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The reason why a lock could not be acquired, held or released.
///
/// To distinguish errors, match on the [`kind`](Self::kind), or use a method such as
/// [`is_contended`](Self::is_contended). The text contains the key, if there is one, and what happened. For a mistake in
/// the program, its configuration or the store, the text also says what was expected and what to do. The text never
/// contains a password, an owner token or a URL with credentials.
pub struct LockError(Box<Inner>);

struct Inner {
    kind: LockErrorKind,
    detail: Cow<'static, str>,
    key: Option<Arc<str>>,
    temporary: bool,
    nothing_taken: bool,
    skipped: bool,
    /// Whether the last holder has released the key, which stays locked until its `min_hold` is over.
    kept: bool,
    /// Whether the key belongs to a latch.
    latch: bool,
    waited: Option<Duration>,
    retry_after: Option<Duration>,
    waiters: Option<usize>,
    position: Option<usize>,
    holder: Option<OwnerRecord>,
    loss: Option<LossReason>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl LockError {
    /// Creates an error of `kind`. `detail` describes what was expected and what to do. The detail begins in lower case
    /// and has no full stop at its end.
    ///
    /// This function is for authors of backends. [`LockErrorKind::Unavailable`] and [`LockErrorKind::NoQuorum`] are
    /// temporary, except after a call of [`permanent`](Self::permanent).
    #[must_use]
    pub fn new(kind: LockErrorKind, detail: impl Into<Cow<'static, str>>) -> Self {
        use LockErrorKind::{Contended, NoQuorum, Overloaded, TimedOut, Unavailable};
        Self(Box::new(Inner {
            kind,
            detail: detail.into(),
            key: None,
            temporary: matches!(kind, Unavailable | NoQuorum | Contended | TimedOut | Overloaded),
            nothing_taken: false,
            skipped: false,
            kept: false,
            latch: false,
            waited: None,
            retry_after: None,
            waiters: None,
            position: None,
            holder: None,
            loss: None,
            source: None,
        }))
    }

    /// Marks the error as one that no retry can fix, such as a wrong password.
    #[must_use]
    pub fn permanent(mut self) -> Self {
        self.0.temporary = false;
        self
    }

    /// Marks the error as proof that the store has not executed the request. For example, the request was never sent, or
    /// was refused.
    ///
    /// Without this mark, the error is ambiguous. The store may have granted the lock, so the library releases the lock
    /// by its owner token.
    #[must_use]
    pub fn nothing_taken(mut self) -> Self {
        self.0.nothing_taken = true;
        self
    }

    /// Removes the mark of [`nothing_taken`](Self::nothing_taken).
    #[cfg(feature = "redlock")]
    pub(crate) fn ambiguous(mut self) -> Self {
        self.0.nothing_taken = false;
        self
    }

    /// Returns whether the store may have executed the request despite this error.
    pub(crate) fn is_ambiguous(&self) -> bool {
        !self.0.nothing_taken
    }

    /// Adds the text of the key. [`with_key`](Self::with_key) calls this.
    pub(crate) fn about(mut self, key: Arc<str>) -> Self {
        self.0.key = Some(key);
        self
    }

    /// Marks the key as the key of a latch.
    pub(crate) fn of_latch(mut self) -> Self {
        self.0.latch = true;
        self
    }

    pub(crate) fn with_loss(mut self, reason: LossReason) -> Self {
        self.0.loss = Some(reason);
        self
    }

    /// Adds the error that caused this error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the holder of the key.
    #[must_use]
    pub fn with_holder(mut self, holder: Option<OwnerRecord>) -> Self {
        self.0.holder = holder;
        self
    }

    /// Adds the time after which another attempt is useful.
    #[must_use]
    pub fn with_retry_after(mut self, after: Option<Duration>) -> Self {
        self.0.retry_after = after;
        self
    }

    pub(crate) fn with_waited(mut self, waited: Duration) -> Self {
        self.0.waited = Some(waited);
        self
    }

    pub(crate) fn with_waiters(mut self, waiters: Option<usize>) -> Self {
        self.0.waiters = waiters;
        self
    }

    pub(crate) fn with_position(mut self, position: Option<usize>) -> Self {
        self.0.position = position;
        self
    }

    /// Marks the error as a refusal by a key that has no holder: the last holder has released it, but it stays locked
    /// until its `min_hold` is over.
    pub(crate) fn kept(mut self) -> Self {
        self.0.kept = true;
        self
    }

    pub(crate) fn skipped(mut self) -> Self {
        self.0.skipped = true;
        self
    }

    /// Returns a copy of the error without its cause, because a cause cannot be cloned.
    pub(crate) fn without_source(&self) -> Self {
        let of = &self.0;
        Self(Box::new(Inner {
            detail: of.detail.clone(),
            key: of.key.clone(),
            holder: of.holder.clone(),
            source: None,
            ..**of
        }))
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> LockErrorKind {
        self.0.kind
    }

    /// Returns the key with its namespace, or `None` if the error is not about a single key.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns how long the caller waited before this error.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        self.0.waited
    }

    /// Returns the time after which another attempt is useful, which is the rest of the holder's lease. This is only a
    /// hint, because a holder that renews its lease holds the lock for longer.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the number of other requests that wait for the key, if known.
    #[must_use]
    pub fn waiters(&self) -> Option<usize> {
        self.0.waiters
    }

    /// Returns the number of requests that were ahead of this request in the store's queue when this request gave up.
    /// Returns `None` if the request was not queued.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        self.0.position
    }

    /// Returns the holder of the key, if the store reports the holder. If the key is only [kept](Self::is_kept), this
    /// is the last holder.
    #[must_use]
    pub fn holder(&self) -> Option<&OwnerRecord> {
        self.0.holder.as_ref()
    }

    /// Returns the reason why the lock was lost. Returns `None` for other errors, and for the [`LockErrorKind::Lost`]
    /// of a guard that was released.
    #[must_use]
    pub fn loss_reason(&self) -> Option<LossReason> {
        self.0.loss
    }

    /// Returns whether the request failed because another owner held the key. The kind is then
    /// [`LockErrorKind::Contended`] or [`LockErrorKind::TimedOut`].
    #[must_use]
    pub fn is_contended(&self) -> bool {
        matches!(self.0.kind, LockErrorKind::Contended | LockErrorKind::TimedOut)
    }

    /// Returns whether the key was *kept*: its last holder has released it, but it stays locked until its
    /// [`min_hold`](crate::LockRequest::min_hold) is over. In that case, [`retry_after`](Self::retry_after) is the time
    /// until the key becomes free, if the store reports it, and [`holder`](Self::holder) is the last holder.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.0.kept
    }

    /// Returns whether the wait ended before the key became free.
    #[must_use]
    pub fn is_timed_out(&self) -> bool {
        self.0.kind == LockErrorKind::TimedOut
    }

    /// Returns whether a lock was lost while it was held. The body may have done some, all or none of its work.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.kind == LockErrorKind::Lost
    }

    /// Returns whether the store caused the error, rather than another holder.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self.0.kind, LockErrorKind::Unavailable | LockErrorKind::NoQuorum)
    }

    /// Returns whether the same call may succeed later without a change to the program or its configuration.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.0.temporary
    }

    /// Returns whether the strategy skipped the call. In that case the body did not run, and this is not a failure.
    #[must_use]
    pub fn is_skipped(&self) -> bool {
        self.0.skipped
    }
}

impl Inner {
    fn what(&self) -> &'static str {
        match self.kind {
            LockErrorKind::TimedOut if self.latch => "latch did not open in time",
            LockErrorKind::Lost if self.latch => "latch was lost",
            kind => kind.text(),
        }
    }
}

/// Displays an error without its key and its holder.
pub(crate) struct Unnamed<'a>(pub(crate) &'a LockError);

impl fmt::Display for Unnamed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0.0;
        f.write_str(inner.what())?;
        // The detail of `Reentered` is omitted too, because it contains another key that the task holds.
        if inner.detail.is_empty() || inner.kind == LockErrorKind::Reentered {
            return Ok(());
        }
        write!(f, ": {}", inner.detail)
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        f.write_str(inner.what())?;
        if let Some(key) = &inner.key {
            write!(f, " (key `{}`)", key.escape_debug())?;
        }
        if !inner.detail.is_empty() {
            write!(f, ": {}", inner.detail)?;
        }
        match &inner.holder {
            Some(holder) if inner.kept => write!(f, "; its last holder, {holder}, has ended")?,
            Some(holder) => write!(f, "; held by {holder}")?,
            None => {}
        }
        if let Some(waited) = inner.waited.filter(|waited| waited.as_millis() > 0) {
            write!(f, "; waited {waited:.1?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockError({self}")?;
        if let Some(source) = &self.0.source {
            write!(f, "; caused by: {source}")?;
        }
        f.write_str(")")
    }
}

impl Error for LockError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
