//! Defines the public type of the answer to a request that was not served.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum_core::body::Body;
use axum_core::response::{IntoResponse, Response};
use http::{StatusCode, Version};
use lock_core::{LockError, LockErrorKind};

use super::outcome::Outcome;
use super::problem::{LONGEST, Problem};
use crate::once;

/// The retry hint that is used if the time until the lock is free is unknown.
pub(crate) const UNKNOWN: Duration = Duration::from_secs(1);

/// The reason why a request was not served. A rejection converts into a response with a status, headers and a problem
/// document without secrets.
///
/// The document never contains the key, the name of the store or the holder of the lock. The log has them. The client
/// gets this response unless [`LockLayer::respond_with`](crate::LockLayer::respond_with) or
/// [`LockLayer::grpc`](crate::LockLayer::grpc) replaces it.
#[derive(Clone, Debug)]
pub struct LockRejection(Box<Problem>);

impl LockRejection {
    fn new(outcome: Outcome) -> Self {
        Self(Box::new(Problem {
            outcome,
            status: outcome.text().status,
            detail: None,
            lock: None,
            retry_after: None,
            jitter: fastrand::f64(),
            waited: None,
            close: false,
        }))
    }

    /// Makes the answer to `error` over `version` of HTTP. The answer contains `template`, except if the error is a
    /// mistake in the program.
    pub(crate) fn of_error(error: &LockError, template: Option<&str>, version: Version) -> Self {
        let mut rejection = Self::new(Outcome::from_kind(error.kind()));
        let problem = &mut *rejection.0;
        if problem.outcome != Outcome::Misconfigured {
            problem.lock = template.map(Into::into);
            problem.waited = error.waited();
        }
        let shutting_down = error.kind() == LockErrorKind::ShuttingDown;
        // After a loss, no retry is proposed, because the effects of the handler are unknown.
        if error.is_temporary() || shutting_down {
            problem.retry_after = Some(error.retry_after().unwrap_or(UNKNOWN).min(LONGEST));
        }
        // HTTP/2 has no `Connection` header. Its servers announce the end of a connection with a GOAWAY frame.
        problem.close = shutting_down && version <= Version::HTTP_11;
        rejection
    }

    /// Returns the answer to a client that sent a value that cannot be a part of the key.
    pub(crate) fn key_invalid(detail: Cow<'static, str>, template: &str) -> Self {
        let mut rejection = Self::new(Outcome::KeyInvalid);
        rejection.0.detail = Some(detail);
        rejection.0.lock = Some(template.into());
        rejection
    }

    /// Returns the answer for a mistake in the program. The log describes the mistake; the answer does not.
    pub(crate) fn misconfigured() -> Self {
        Self::new(Outcome::Misconfigured)
    }

    /// Returns the answer to a request whose body did not arrive as a whole, or is too large.
    pub(crate) fn body(outcome: Outcome, template: &str) -> Self {
        let mut rejection = Self::new(outcome);
        rejection.0.lock = Some(template.into());
        rejection
    }

    /// Returns the answer for a handler that needs a lock, but runs without a lock because the store does not answer.
    pub(crate) fn store_unavailable() -> Self {
        let mut rejection = Self::new(Outcome::StoreUnavailable);
        rejection.0.retry_after = Some(UNKNOWN);
        rejection
    }

    /// Returns the answer to a request whose key is refused, because the requests of this layer already lock too many
    /// keys.
    pub(crate) fn too_many_keys(template: &str) -> Self {
        let mut rejection = Self::new(Outcome::Overloaded);
        rejection.0.detail = Some("Too many requests are being served.".into());
        rejection.0.lock = Some(template.into());
        rejection.0.retry_after = Some(UNKNOWN);
        rejection
    }

    pub(crate) fn with_retry_after(mut self, after: Duration) -> Self {
        self.0.retry_after = Some(after.min(LONGEST));
        self
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status;
        self
    }

    /// Returns the reason for the answer.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// Returns the HTTP status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// Returns the reason as a sentence for people.
    #[must_use]
    pub fn detail(&self) -> &str {
        self.0.detail()
    }

    /// Returns the template of the key, or the templates of several keys with commas between them. Returns `None` for a
    /// mistake in the program.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// Returns the time after which a retry makes sense, at most 30 s. This time is a hint. `Retry-After` has the time
    /// in whole seconds. The header includes a random part (up to a quarter, or a second if that is more), so that
    /// clients that were refused together do not all retry together. The [page of the crate](crate#answers) has the
    /// details.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns [`retry_after`](Self::retry_after) plus the random part.
    pub(super) fn told_retry_after(&self) -> Option<Duration> {
        self.0.told_retry_after()
    }

    /// Returns how long the request waited for its lock.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        self.0.waited
    }

    /// Returns the answer with its status, headers and document. The program can change it.
    #[must_use]
    pub fn to_response(&self) -> Response {
        let mut response = Response::new(Body::from(self.0.document()));
        *response.status_mut() = self.status();
        self.0.write_headers(response.headers_mut());
        response
    }
}

/// Converts an error into the answer that the layer would send. Use this in a handler that acquires a lock itself. A
/// function under `#[distributed_lock]` can return `Result<_, LockRejection>`.
///
/// The answer names no template, and has the status of the [table of the crate](crate#answers), even if a layer sets
/// other options. If another holder has the key, `Retry-After` is 1 s, or the rest of the holder's lease if that is
/// shorter.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::LockError> {
/// use axum::response::IntoResponse;
/// use lock_axum::LockRejection;
/// use lock_core::LockManager;
///
/// async fn import(locks: &LockManager) -> Result<&'static str, LockRejection> {
///     let _guard = locks.lock("import").wait(std::time::Duration::ZERO).acquire().await?;
///     Ok("done")
/// }
///
/// let locks = LockManager::in_memory();
/// let _busy = locks.lock("import").acquire().await?;
/// assert_eq!(import(&locks).await.into_response().status(), 409);
/// # Ok(())
/// # }
/// ```
impl From<LockError> for LockRejection {
    fn from(error: LockError) -> Self {
        // The version of HTTP is unknown here, so `Connection: close` is omitted. An HTTP/1 server that shuts down
        // closes its connections anyway.
        let mut rejection = Self::of_error(&error, None, Version::HTTP_2);
        if matches!(rejection.outcome(), Outcome::Contended | Outcome::TimedOut | Outcome::Overloaded)
            && !error.is_kept()
        {
            // The rest of a lease does not show when the holder releases the lock, because the holder renews the lease.
            let rest = error.retry_after().unwrap_or(UNKNOWN);
            rejection = rejection.with_retry_after(rest.min(UNKNOWN));
        }
        if rejection.outcome() == Outcome::Misconfigured && once::is_first(format!("{:?}", error.kind())) {
            // The text of the error is left out, because it may contain a key that must not be logged. For some errors,
            // lock-core itself logs the text, without such keys.
            tracing::error!(why = ?error.kind(), "a handler cannot acquire a lock, and its request is answered with 500");
        }
        rejection
    }
}

impl fmt::Display for LockRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.detail())
    }
}

impl std::error::Error for LockRejection {}

impl IntoResponse for LockRejection {
    fn into_response(self) -> Response {
        self.to_response()
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, RETRY_AFTER};

    use super::*;

    #[test]
    fn every_kind_has_its_status() {
        use LockErrorKind as K;
        for (kind, status, retry_after) in [
            (K::Contended, 409, true),
            (K::TimedOut, 409, true),
            (K::Overloaded, 503, true),
            (K::Unavailable, 503, true),
            (K::NoQuorum, 503, true),
            (K::Lost, 503, false),
            (K::InvalidKey, 400, false),
            (K::ShuttingDown, 503, true),
            (K::InvalidRequest, 500, false),
            (K::Unsupported, 500, false),
            (K::NotInstalled, 500, false),
            (K::Upgrade, 500, false),
            (K::Reentered, 500, false),
        ] {
            let error = LockError::new(kind, "redis://:secret@store");
            let rejection = LockRejection::of_error(&error, Some("order:<id>"), Version::HTTP_11);
            let response = rejection.to_response();
            assert_eq!(response.status(), status, "{kind:?}");
            assert_eq!(response.headers().contains_key(RETRY_AFTER), retry_after, "{kind:?}");
            assert_eq!(response.headers().contains_key(CONNECTION), kind == K::ShuttingDown, "{kind:?}");
            let text = rejection.0.document();
            assert!(!text.contains("secret"), "{text}");
            assert_eq!(text.contains("order:<id>"), status != 500, "{text}");
        }
    }

    #[test]
    fn http_2_knows_no_connection_header() {
        let error = LockError::new(LockErrorKind::ShuttingDown, "");
        let response = LockRejection::of_error(&error, None, Version::HTTP_2).into_response();
        assert!(!response.headers().contains_key(CONNECTION));
    }
}
