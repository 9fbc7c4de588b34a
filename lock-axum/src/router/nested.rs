//! Detects whether a router has passed a request on to a service with its own routes.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{MatchedPath, NestedPath, Request};
use axum::response::{Extension, Response};
use axum::routing::any;
use http::Uri;
use http::request::Parts;
use tower::Service;

const PROBE: &str = "/probe";

/// The matched path that the probe has reported.
#[derive(Clone)]
struct Found(MatchedPath);

/// A router that reports the matched path of a request.
static ROUTER: LazyLock<Router> =
    LazyLock::new(|| Router::new().route(PROBE, any(async |path: MatchedPath| Extension(Found(path)))));

/// Returns whether a router passes this request on by `nest_service`, and the request has not yet reached the nested
/// service. Call this only if the request has no matched path. If the result is `false`, the request has no route.
///
/// axum shows the prefix of a nested service only in front of the matched path of an inner router. So this function
/// calls [`ROUTER`], a probe that acts as an inner router. Inside the nested service, the prefix equals the public
/// `NestedPath`.
pub(crate) async fn is_passed_on(parts: &Parts) -> bool {
    let mut probe: Request = Request::default();
    *probe.uri_mut() = Uri::from_static(PROBE);
    *probe.extensions_mut() = parts.extensions.clone();
    let response: Response = match ROUTER.clone().call(probe).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    let Some(Found(path)) = response.extensions().get() else { return false };
    let prefix = path.as_str().strip_suffix(PROBE).unwrap_or_default();
    let reached = parts.extensions.get::<NestedPath>().map_or("", NestedPath::as_str);
    prefix.trim_end_matches('/') != reached.trim_end_matches('/')
}
