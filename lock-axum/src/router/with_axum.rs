//! Reads the data of axum's router.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{MatchedPath, OriginalUri, RawPathParams};
use axum_core::extract::FromRequestParts;
use http::Uri;
use http::request::Parts;

use super::NoParams;

/// The path parameters of a request, in the order of its path.
#[derive(Debug)]
pub(crate) struct Params(RawPathParams);

impl Params {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter()
    }
}

/// Returns the path parameters. If the router found no route, there are no parameters.
pub(crate) async fn params(parts: &mut Parts) -> Result<Params, NoParams> {
    RawPathParams::from_request_parts(parts, &()).await.map(Params).map_err(|rejection| match rejection {
        RawPathParamsRejection::InvalidUtf8InPathParam(_) => NoParams::NotUtf8,
        _ => NoParams::NoRouter,
    })
}

/// Returns the route that the router found, such as `/orders/{id}`.
pub(crate) fn route(parts: &Parts) -> Option<&str> {
    parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str)
}

/// Returns the URI that the client sent. Inside a nested router, `parts.uri` lacks the prefix of the outer router.
pub(crate) fn uri(parts: &Parts) -> &Uri {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0)
}
