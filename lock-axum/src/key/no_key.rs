//! Why a request has no key.

use std::borrow::Cow;

/// Why a request has no key.
#[derive(Debug)]
pub(crate) enum NoKey {
    /// The program says that this request needs none.
    Skip,
    /// The router found no route, so there is nothing to lock.
    NoRoute,
    /// The client's fault; the text names the part, never its value.
    Client(Cow<'static, str>),
    /// The program's fault; the text is for its log.
    Program(String),
    /// An extractor has refused the request, with this answer.
    Refused(Box<axum::response::Response>),
}
