//! Replaces the functions of `with_axum` in builds without axum.

use http::Uri;
use http::request::Parts;

use super::NoParams;

/// The path parameters of `with_axum`. Without a router, there are none.
#[derive(Debug)]
pub(crate) enum Params {}

impl Params {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }
}

/// See `with_axum`.
#[allow(clippy::unused_async, reason = "that of the twin waits")]
pub(crate) async fn params(_parts: &mut Parts) -> Result<Params, NoParams> {
    Err(NoParams::NoRouter)
}

/// See `with_axum`.
pub(crate) fn route(_parts: &Parts) -> Option<&str> {
    None
}

/// See `with_axum`.
pub(crate) fn uri(parts: &Parts) -> &Uri {
    &parts.uri
}

/// See `with_axum`. Without a router, no request is passed on.
#[allow(clippy::unused_async, reason = "that of the twin waits")]
pub(crate) async fn is_passed_on(_parts: &Parts) -> bool {
    false
}
