//! Detects whether a router has passed a request on to a service with its own routes.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::{MatchedPath, NestedPath, Request};
use axum::response::{Extension, Response};
use axum::routing::any;
use http::Uri;
use http::request::Parts;
use tower::Service;

/// The route of the probe.
const PROBE: &str = "/probe";

/// The route that the probe has found.
#[derive(Clone)]
struct Found(MatchedPath);

/// A router that reports the matched path of a request.
static ROUTER: LazyLock<Router> =
    LazyLock::new(|| Router::new().route(PROBE, any(async |path: MatchedPath| Extension(Found(path)))));

/// Returns whether a router has matched this request with `nest_service`, and has not yet reached the nested service.
/// The request must have no matched path. If the result is false, the request has no route.
///
/// axum shows the prefix of such a service only in front of the matched path of an inner router. So the probe is an
/// inner router. Inside the nested service, that prefix equals the public `NestedPath`.
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
