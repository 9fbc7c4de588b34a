//! Makes answers that are errors: `application/problem+json` (RFC 9457).

use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use lock_core::{LockError, LockErrorKind};
use serde::Serialize;

/// An answer that is an error. The readers of this answer operate the service, so the answer may name the store.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    status: StatusCode,
    pub(super) detail: String,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, detail: detail.into() }
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, detail: detail.into() }
    }

    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, detail: detail.into() }
    }

    pub(super) fn failed(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, detail: detail.into() }
    }
}

impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        let status = match error.kind() {
            LockErrorKind::InvalidKey | LockErrorKind::InvalidRequest => StatusCode::BAD_REQUEST,
            LockErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self { status, detail: error.to_string() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = Document {
            r#type: "about:blank",
            title: self.status.canonical_reason().unwrap_or("Error"),
            status: self.status.as_u16(),
            detail: &self.detail,
        };
        let mut response = json(&document);
        *response.status_mut() = self.status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

/// Returns `value` as a JSON answer.
pub(super) fn json(value: &impl Serialize) -> Response {
    let content = HeaderValue::from_static("application/json");
    match serde_json::to_vec(value) {
        Ok(text) => ([(CONTENT_TYPE, content)], text).into_response(),
        // Plain data cannot fail to serialize: all keys of maps are text.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
