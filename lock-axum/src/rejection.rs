//! Answers that say why a request was not served: `application/problem+json` (RFC 9457).

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Version};
use lock_core::{LockError, LockErrorKind};

/// The longest time that a client is told to stay away.
const LONGEST: Duration = Duration::from_secs(30);
/// What a client is told when nobody knows when the lock will be free.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Why a request was not served: a status, headers and a problem document without secrets.
///
/// The document never holds the key, the name of the store or who holds the lock; the log does.
#[derive(Clone, Debug)]
pub struct LockRejection(Box<Problem>);

#[derive(Clone, Debug)]
struct Problem {
    outcome: &'static Outcome,
    detail: Option<Cow<'static, str>>,
    /// The template of the key, where there is one to show.
    lock: Option<Box<str>>,
    retry_after: Option<Duration>,
    waited: Option<Duration>,
    close: bool,
}

/// What there is to say about one way in which a request is not served.
#[derive(Debug)]
struct Outcome {
    kind: &'static str,
    status: StatusCode,
    title: &'static str,
    detail: &'static str,
}

macro_rules! outcomes {
    ($($name:ident = $kind:literal, $status:ident, $title:literal, $detail:literal;)*) => {
        $(static $name: Outcome =
            Outcome { kind: $kind, status: StatusCode::$status, title: $title, detail: $detail };)*
    };
}

outcomes! {
    CONTENDED = "urn:problem-type:lock-contended", CONFLICT, "Locked",
        "Another request is working on this.";
    TIMED_OUT = "urn:problem-type:lock-timed-out", CONFLICT, "Locked",
        "Another request worked on this for longer than this one could wait.";
    OVERLOADED = "urn:problem-type:lock-overloaded", SERVICE_UNAVAILABLE, "Overloaded",
        "Too many requests wait for this.";
    UNAVAILABLE = "urn:problem-type:lock-store-unavailable", SERVICE_UNAVAILABLE, "Lock not available",
        "The request was not started because its lock could not be taken.";
    LOST = "urn:problem-type:lock-lost", SERVICE_UNAVAILABLE, "Lock lost",
        "The request was stopped on the way. It may have had effects: look before you repeat it.";
    KEY_INVALID = "urn:problem-type:lock-key-invalid", BAD_REQUEST, "Key of the lock is invalid",
        "A part of the request that says what is to be locked is invalid.";
    SHUTTING_DOWN = "urn:problem-type:lock-shutting-down", SERVICE_UNAVAILABLE, "Shutting down",
        "This server takes no more work.";
    MISCONFIGURED = "about:blank", INTERNAL_SERVER_ERROR, "Internal Server Error",
        "The server is not set up to serve this request.";
}

fn outcome(kind: LockErrorKind) -> &'static Outcome {
    match kind {
        LockErrorKind::Contended => &CONTENDED,
        LockErrorKind::TimedOut => &TIMED_OUT,
        LockErrorKind::Overloaded => &OVERLOADED,
        LockErrorKind::Unavailable | LockErrorKind::NoQuorum => &UNAVAILABLE,
        LockErrorKind::Lost => &LOST,
        LockErrorKind::InvalidKey => &KEY_INVALID,
        LockErrorKind::ShuttingDown => &SHUTTING_DOWN,
        _ => &MISCONFIGURED,
    }
}

impl LockRejection {
    fn new(outcome: &'static Outcome) -> Self {
        Self(Box::new(Problem {
            outcome,
            detail: None,
            lock: None,
            retry_after: None,
            waited: None,
            close: false,
        }))
    }

    /// The answer to `error`, over `version` of HTTP; `template` is shown to clients.
    pub(crate) fn of_error(error: &LockError, template: Option<&str>, version: Version) -> Self {
        let mut rejection = Self::new(outcome(error.kind()));
        let problem = &mut *rejection.0;
        if problem.outcome.status != StatusCode::INTERNAL_SERVER_ERROR {
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
        let mut rejection = Self::new(&KEY_INVALID);
        rejection.0.detail = Some(detail);
        rejection.0.lock = Some(template.into());
        rejection
    }

    /// The program is wrong. The log says how, the client is told nothing.
    pub(crate) fn misconfigured() -> Self {
        Self::new(&MISCONFIGURED)
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.outcome.status
    }

    /// The body and its headers.
    pub(crate) fn into_response_with<B>(self, body: impl FnOnce(Bytes) -> B) -> Response<B> {
        let mut response = Response::new(body(self.0.document().into()));
        *response.status_mut() = self.status();
        self.0.write_headers(response.headers_mut());
        response
    }
}

impl fmt::Display for LockRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.detail())
    }
}

impl std::error::Error for LockRejection {}

impl IntoResponse for LockRejection {
    fn into_response(self) -> axum::response::Response {
        self.into_response_with(Body::from)
    }
}

impl Problem {
    fn detail(&self) -> &str {
        self.detail.as_deref().unwrap_or(self.outcome.detail)
    }

    fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(after)));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    fn document(&self) -> String {
        let mut json = String::with_capacity(256);
        let Outcome { kind, status, title, .. } = self.outcome;
        json.push_str("{\"type\":");
        write_text(&mut json, kind);
        json.push_str(",\"title\":");
        write_text(&mut json, title);
        json.push_str(",\"status\":");
        json.push_str(status.as_str());
        json.push_str(",\"detail\":");
        write_text(&mut json, self.detail());
        if let Some(lock) = &self.lock {
            json.push_str(",\"lock\":");
            write_text(&mut json, lock);
        }
        for (name, time) in [("retry_after_ms", self.retry_after), ("waited_ms", self.waited)] {
            if let Some(time) = time {
                write!(json, ",\"{name}\":{}", time.as_millis())
                    .expect("BUG: writing to a String does not fail");
            }
        }
        json.push('}');
        json
    }
}

/// Whole seconds for `Retry-After`: rounded up, so that nobody comes too early, and at least 1.
fn seconds(after: Duration) -> u64 {
    let up = u64::from(after.subsec_nanos() > 0);
    after.as_secs().saturating_add(up).clamp(1, LONGEST.as_secs())
}

/// Writes `text` as a JSON string.
fn write_text(json: &mut String, text: &str) {
    json.push('"');
    for char in text.chars() {
        match char {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\0'..='\x1f' => {
                write!(json, "\\u{:04x}", u32::from(char)).expect("BUG: writing to a String does not fail");
            }
            _ => json.push(char),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up_and_bounded() {
        for (millis, expected) in
            [(0, 1), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (29_001, 30), (30_000, 30), (90_000, 30)]
        {
            assert_eq!(seconds(Duration::from_millis(millis)), expected, "{millis} ms");
        }
    }

    #[test]
    fn text_is_json() {
        let mut json = String::new();
        write_text(&mut json, "a\"b\\c\n\u{1}é<");
        assert_eq!(json, r#""a\"b\\c\u000a\u0001é<""#);
    }

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
            let response = LockRejection::of_error(&error, Some("order:<id>"), Version::HTTP_11)
                .into_response_with(|b| b);
            assert_eq!(response.status(), status, "{kind:?}");
            assert_eq!(response.headers().contains_key(RETRY_AFTER), retry_after, "{kind:?}");
            assert_eq!(response.headers().contains_key(CONNECTION), kind == K::ShuttingDown, "{kind:?}");
            let text = std::str::from_utf8(response.body()).unwrap();
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
