//! Makes answers for gRPC clients. Such an answer has no body, and has the status in its head ("Trailers-Only").
//!
//! [gRPC over HTTP2](https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) specifies these answers, and
//! [A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md) specifies the retry delay, which is named
//! pushback.

use std::fmt::Write;

use axum_core::body::Body;
use axum_core::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};

use super::rejection::LockRejection;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

pub(super) fn response(rejection: &LockRejection) -> Response {
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, HeaderValue::from(u16::from(rejection.outcome().text().grpc)));
    let message = encoded(rejection.detail());
    headers.insert(MESSAGE, HeaderValue::from_str(&message).expect("BUG: encoded text is printable ASCII"));
    if let Some(after) = rejection.told_retry_after() {
        let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        headers.insert(PUSHBACK, HeaderValue::from(millis));
    }
    response
}

/// Percent-encodes the percent sign and all characters that are not printable ASCII.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => write!(encoded, "%{byte:02X}").expect("BUG: writing to a String does not fail"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_printable_ascii() {
        for (text, expected) in
            [("", ""), ("It is held.", "It is held."), ("100% \u{e9}\n", "100%25 %C3%A9%0A")]
        {
            assert_eq!(encoded(text), expected, "{text:?}");
        }
    }
}
