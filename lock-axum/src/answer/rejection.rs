//! Answers that say why a request was not served: `application/problem+json` (RFC 9457).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, Version};
use lock_core::{LockError, LockErrorKind};

use super::outcome::Outcome;
use super::problem::{LONGEST, Problem};
use crate::once;

/// What a client is told when nobody knows when the lock will be free.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Why a request was not served: a status, headers and a problem document without secrets.
///
/// The document never holds the key, the name of the store or who holds the lock; the log does. As a response it is what
/// the client gets unless [`LockLayer::respond_with`](crate::LockLayer::respond_with) says otherwise.
#[derive(Clone, Debug)]
pub struct LockRejection(Box<Problem>);

impl LockRejection {
    fn new(outcome: Outcome) -> Self {
        Self(Box::new(Problem {
            outcome,
            status: outcome.words().status,
            detail: None,
            lock: None,
            retry_after: None,
            waited: None,
            close: false,
        }))
    }

    /// The answer to `error`, over `version` of HTTP; `template` is shown to clients.
    pub(crate) fn of_error(error: &LockError, template: Option<&str>, version: Version) -> Self {
        let mut rejection = Self::new(Outcome::of(error.kind()));
        let problem = &mut *rejection.0;
        if problem.outcome != Outcome::Misconfigured {
            problem.lock = template.map(Into::into);
            problem.waited = error.waited();
        }
        let shutting_down = error.kind() == LockErrorKind::ShuttingDown;
        // A lost lock is not temporary in this sense: nobody knows what the handler has done.
        if error.is_temporary() || shutting_down {
            problem.retry_after = Some(error.retry_after().unwrap_or(UNKNOWN).min(LONGEST));
        }
        // HTTP/2 knows no such header; its server says goodbye in a frame of its own.
        problem.close = shutting_down && version <= Version::HTTP_11;
        rejection
    }

    /// A client sent a part of the key that cannot be one.
    pub(crate) fn key_invalid(detail: Cow<'static, str>, template: &str) -> Self {
        let mut rejection = Self::new(Outcome::KeyInvalid);
        rejection.0.detail = Some(detail);
        rejection.0.lock = Some(template.into());
        rejection
    }

    /// The program is wrong. The log says how, the client is told nothing.
    pub(crate) fn misconfigured() -> Self {
        Self::new(Outcome::Misconfigured)
    }

    /// The body did not arrive, or is too much.
    pub(crate) fn body(outcome: Outcome, template: &str) -> Self {
        let mut rejection = Self::new(outcome);
        rejection.0.lock = Some(template.into());
        rejection
    }

    /// The handler needs the lock that it was not given.
    pub(crate) fn store_unavailable() -> Self {
        let mut rejection = Self::new(Outcome::StoreUnavailable);
        rejection.0.retry_after = Some(UNKNOWN);
        rejection
    }

    /// So many keys are locked by requests of this layer that no further one is taken.
    pub(crate) fn too_many_keys(template: &str) -> Self {
        let mut rejection = Self::new(Outcome::Overloaded);
        rejection.0.detail = Some("Too many requests are being worked on.".into());
        rejection.0.lock = Some(template.into());
        rejection.0.retry_after = Some(UNKNOWN);
        rejection
    }

    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status;
        self
    }

    /// What happened.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// One sentence for people.
    #[must_use]
    pub fn detail(&self) -> &str {
        self.0.detail()
    }

    /// The template of the key, of several with commas; `None` where the program is at fault.
    #[must_use]
    pub fn template(&self) -> Option<&str> {
        self.0.lock.as_deref()
    }

    /// When another try makes sense, at most 30 s: a hint, and what `Retry-After` says in whole seconds.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// How long the request waited for its lock.
    #[must_use]
    pub fn waited(&self) -> Option<Duration> {
        self.0.waited
    }

    /// The answer: status, headers and document, to be changed at will.
    #[must_use]
    pub fn to_response(&self) -> Response {
        let mut response = Response::new(Body::from(self.0.document()));
        *response.status_mut() = self.status();
        self.0.write_headers(response.headers_mut());
        response
    }
}

/// For locks that a handler takes itself: the client gets what the layer would answer, also from a function under
/// `#[distributed_lock]` that returns `Result<_, LockRejection>`.
///
/// It names no template, and the status is that of the table, whatever a layer says.
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
        // The version is not known here, and a server of HTTP/1 closes the connection when it ends all the same.
        let rejection = Self::of_error(&error, None, Version::HTTP_2);
        if rejection.outcome() == Outcome::Misconfigured && once::is_news(format!("{:?}", error.kind())) {
            // Without its text, which may name what is kept out of the log; the lock itself tells it where it may.
            tracing::error!(why = ?error.kind(), "a lock of a handler cannot be had, which is answered with 500");
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
