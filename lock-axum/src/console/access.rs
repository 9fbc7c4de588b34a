//! Checks who may view the console and who may act, and limits what a browser may do with the page.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum_core::response::{IntoResponse, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;

use super::problem::Problem;

/// The content security policy of the page, which has no inline script or style.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The header that an action needs. A page of another origin can send it only if this server allows that origin.
const FROM_THE_PAGE: HeaderName = HeaderName::from_static("x-lock-console");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A function of the program that makes a decision about a request from the head of the request.
type Check<T> = Arc<dyn Fn(&Parts) -> T + Send + Sync>;

/// The people who may view a [`Console`](super::Console). Viewers see keys, labels, hosts and process ids.
#[derive(Clone)]
pub struct Viewers(Option<Check<bool>>);

impl Viewers {
    /// Admits everyone who can reach the console. Use this for a router behind the login of your service. On a port
    /// without a login, use [`only`](Self::only), and check the host as its example shows.
    #[must_use]
    pub fn everyone() -> Self {
        Self(None)
    }

    /// Admits the people for whom `may_look` returns `true`. `may_look` gets the head of each request, with the
    /// extensions that outer layers have added to it, and must not block. Everyone else gets 403 on each path, or 500
    /// if `may_look` panics.
    ///
    /// # Examples
    /// This check is for a port that only one machine can reach. Without the check, an attacker could point a host name
    /// at `127.0.0.1`. A page under that name could then use the console in the browser of a person at that machine.
    /// ```
    /// use lock_axum::console::Viewers;
    ///
    /// let viewers = Viewers::only(|request| {
    ///     request.headers.get("host").is_some_and(|host| host == "127.0.0.1:8080")
    /// });
    /// # let _ = viewers;
    /// ```
    #[must_use]
    pub fn only(may_look: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(may_look)))
    }

    fn admit(&self, request: &Parts) -> Result<(), Problem> {
        match &self.0 {
            None => Ok(()),
            Some(may_look) if ask(may_look, request)? => Ok(()),
            Some(_) => Err(Problem::forbidden("you may not look at these locks")),
        }
    }
}

impl fmt::Debug for Viewers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_none() { "Viewers::everyone" } else { "Viewers::only(..)" })
    }
}

/// The people who may release locks by force.
pub(super) struct Operators(Option<Check<Option<String>>>);

impl Operators {
    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn new(operator: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(operator)))
    }

    /// Returns the name of the person who sent a request. Returns `None` if that person may not act.
    pub(super) fn name(&self, request: &Parts) -> Result<Option<String>, Problem> {
        self.0.as_ref().map_or(Ok(None), |operator| ask(operator, request))
    }

    /// Returns the name of the person who sent a request for an action. Refuses requests that a page of another origin
    /// may have made in that person's browser.
    pub(super) fn admit(&self, request: &Parts) -> Result<String, Problem> {
        if let Some(flaw) = flaw(&request.headers) {
            return Err(Problem::forbidden(flaw));
        }
        let refused = || Problem::forbidden("you may only look: the console allows you no actions");
        self.name(request)?.ok_or_else(refused)
    }
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_none() { "none" } else { "some" })
    }
}

/// Calls a function of the program. If the function panics, this request is refused, and its client gets an answer.
fn ask<T>(check: &Check<T>, request: &Parts) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(|| check(request))).map_err(|_| {
        tracing::error!("the function that decides who may use the console of the locks has panicked");
        Problem::failed("the check of your rights has failed; the log of the service has more")
    })
}

/// Returns the reason to suspect that a request for an action comes from a page of another origin, if there is such a
/// reason. Without a preflight, such a page can send neither a JSON body nor the [`FROM_THE_PAGE`] header, and the
/// console refuses preflights.
fn flaw(headers: &HeaderMap) -> Option<&'static str> {
    if !is_from_the_page(headers) {
        return Some(NO_HEADER);
    }
    let json = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !json.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Some("the header `content-type: application/json` is missing");
    }
    is_foreign(headers).then_some(FOREIGN)
}

/// Refuses a request that may come from a page of another origin. The body is not checked.
pub(super) fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    if is_from_the_page(headers) { Ok(()) } else { Err(Problem::forbidden(NO_HEADER)) }
}

fn is_from_the_page(headers: &HeaderMap) -> bool {
    headers.get(FROM_THE_PAGE).is_some_and(|value| value == "1")
}

const NO_HEADER: &str = "the header `x-lock-console: 1` is missing";
const FOREIGN: &str = "the request was made by a page of another site";

/// Returns whether the browser says that a page of another origin has made a request.
fn is_foreign(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none")
}

/// Refuses people who are not viewers, and sends the browser the policy of the page.
pub(super) async fn guard(State(viewers): State<Viewers>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    // Other sites may link to the page. But their pages must not load the data, because such a load makes the store
    // list its locks.
    let is_data = head.uri.path().starts_with("/api/");
    let mut response = match viewers.admit(&head) {
        Ok(()) if is_data && is_foreign(&head.headers) => Problem::forbidden(FOREIGN).into_response(),
        Ok(()) => next.run(Request::from_parts(head, body)).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_other_pages_are_refused() {
        let own = [("x-lock-console", "1"), ("content-type", "application/json")];
        let table: [(&[(&str, &str)], Option<&str>); 9] = [
            (&[], None),
            (&[("sec-fetch-site", "same-origin")], None),
            (&[("sec-fetch-site", "none")], None),
            (&[("content-type", "Application/JSON; charset=utf-8")], None),
            (&[("sec-fetch-site", "cross-site")], Some("another site")),
            (&[("sec-fetch-site", "same-site")], Some("another site")),
            (&[("content-type", "text/plain")], Some("content-type")),
            (&[("content-type", "")], Some("content-type")),
            (&[("x-lock-console", "0")], Some("x-lock-console")),
        ];
        for (changes, says) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in own.iter().chain(changes) {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            match (flaw(&headers), says) {
                (None, None) => {}
                (Some(flaw), Some(says)) => assert!(flaw.contains(says), "{changes:?}: {flaw}"),
                (found, _) => panic!("{changes:?}: {found:?}"),
            }
        }
        assert!(flaw(&HeaderMap::new()).is_some());
    }
}
