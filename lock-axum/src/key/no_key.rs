//! The reasons for which a request has no key.

use std::borrow::Cow;

/// The reason for which a request has no key.
#[derive(Debug)]
pub(crate) enum NoKey {
    /// The program serves this request without a lock.
    Skip,
    /// The router found no route, so there is nothing to lock.
    NoRoute,
    /// The client sent an invalid value. The text names its part of the request, never the value.
    Client(Cow<'static, str>),
    /// The program has a mistake. The text is for the log.
    Program(String),
    /// An extractor has rejected the request with this answer.
    Refused(Box<axum_core::response::Response>),
}
