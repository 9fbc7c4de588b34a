//! Whether a router has passed a request on to a service with routes of its own.

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

/// Returns whether a router has matched this request, which has no matched path, with `nest_service`, before the nested
/// service is reached. Otherwise there is no route for the request.
///
/// axum keeps the prefix of such a service to itself, and puts it in front of the matched path of a router inside. So a
/// router inside is asked. Inside the nested service, that prefix equals the public `NestedPath`.
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
