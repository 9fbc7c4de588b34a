//! The twin without axum.

use http::Uri;
use http::request::Parts;

use super::NoParams;

/// See the twin. There are none.
#[derive(Debug)]
pub(crate) enum Params {}

impl Params {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }
}

/// See the twin.
#[allow(clippy::unused_async, reason = "that of the twin waits")]
pub(crate) async fn params(_parts: &mut Parts) -> Result<Params, NoParams> {
    Err(NoParams::NoRouter)
}

/// See the twin.
pub(crate) fn route(_parts: &Parts) -> Option<&str> {
    None
}

/// See the twin.
pub(crate) fn uri(parts: &Parts) -> &Uri {
    &parts.uri
}

/// See the twin. No key needs a route.
#[allow(clippy::unused_async, reason = "that of the twin waits")]
pub(crate) async fn is_passed_on(_parts: &Parts) -> bool {
    false
}
