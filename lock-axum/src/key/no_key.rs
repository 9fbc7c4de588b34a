//! Lists the reasons why a request has no key.

use std::borrow::Cow;

#[derive(Debug)]
pub(crate) enum NoKey {
    /// The program has chosen to serve this request without a lock.
    Skip,
    /// The router found no route, so there is nothing to lock.
    NoRoute,
    /// The client sent an invalid value. The text names the part of the request that has the value, but never the
    /// value.
    Client(Cow<'static, str>),
    /// The program has a mistake. The text is for the log.
    Program(String),
    /// An extractor has rejected the request with this answer.
    Refused(Box<axum_core::response::Response>),
}
