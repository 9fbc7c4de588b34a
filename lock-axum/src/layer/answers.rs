//! What a client gets whose request was not served.

use std::sync::Arc;

use axum::response::IntoResponse;
use http::StatusCode;
use http::request::Parts;

use super::builder::LockLayer;
use crate::answer::{Form, LockRejection, Outcome};

impl<K> LockLayer<K> {
    /// Answers `outcome` with `status`, in place of the one in the table of the crate's documentation.
    ///
    /// [`check`](LockLayer::check) refuses a status that is no 4xx or 5xx, and one beside [`grpc`](Self::grpc).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::{Request, StatusCode};
    /// # use tower::ServiceExt;
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::{LockLayer, Outcome};
    ///
    /// let layer = LockLayer::new(locks.clone()).key("job").status(Outcome::Contended, StatusCode::TOO_EARLY);
    /// let app: Router = Router::new().route("/", post(async || "done").route_layer(layer));
    /// let _busy = locks.lock("job").acquire().await?;
    /// let answer = app.oneshot(Request::post("/").body(Body::empty())?).await?;
    /// assert_eq!(answer.status(), StatusCode::TOO_EARLY);
    /// # Ok(())
    /// # }
    /// ```
    pub fn status(mut self, outcome: Outcome, status: StatusCode) -> Self {
        self.options.answers.set_status(outcome, status);
        self
    }

    /// Answers a request that found its key held with 423 Locked, in place of 409: for clients that tell a lock from
    /// another conflict.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks).key("order:<id>").locked();
    /// ```
    pub fn locked(self) -> Self {
        self.held(StatusCode::LOCKED)
    }

    /// Answers a request that found its key held with 429 Too Many Requests, in place of 409: most clients and proxies
    /// try such a request again by themselves, which they do not do for 409 and 423.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks).key("order:<id>").too_many_requests();
    /// ```
    pub fn too_many_requests(self) -> Self {
        self.held(StatusCode::TOO_MANY_REQUESTS)
    }

    fn held(self, status: StatusCode) -> Self {
        self.status(Outcome::Contended, status).status(Outcome::TimedOut, status)
    }

    /// Answers as gRPC expects it, for a service of tonic: HTTP status 200, no body, and `grpc-status` in the head.
    ///
    /// | outcome | `grpc-status` |
    /// | --- | --- |
    /// | contended, timed out, lost | 10, `ABORTED` |
    /// | overloaded, body too large | 8, `RESOURCE_EXHAUSTED` |
    /// | body incomplete | 1, `CANCELLED` |
    /// | store unavailable, shutting down | 14, `UNAVAILABLE` |
    /// | key invalid | 3, `INVALID_ARGUMENT` |
    /// | misconfigured | 13, `INTERNAL` |
    ///
    /// `grpc-retry-pushback-ms` stands in for `Retry-After`. The values of a key come from metadata, `<header.x-order>`,
    /// from the method, `<uri.path>`, or by [`key_fn`](LockLayer::key_fn); the message itself is not read. A streamed
    /// answer holds its lock to its end, as every body of unknown length.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks).key("order:<header.x-order>").grpc();
    /// // tonic::transport::Server::builder().layer(layer).add_service(orders)
    /// ```
    pub fn grpc(mut self) -> Self {
        self.options.answers.form = Form::Grpc;
        self
    }

    /// Makes the answer to a request that was not served, from the rejection and the head of the request: anything that a
    /// handler could return, such as `(StatusCode::LOCKED, Json(..))`. [`LockRejection::to_response`] is what the client
    /// would get otherwise, to be changed at will.
    ///
    /// The head is copied before the handler runs, which costs a request about a microsecond.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::{Request, StatusCode};
    /// # use tower::ServiceExt;
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::LockLayer;
    ///
    /// let layer = LockLayer::new(locks.clone()).key("job").respond_with(|rejection, request| {
    ///     let text = format!("{} {}: {}", request.method, request.uri, rejection.detail());
    ///     (rejection.status(), [("x-why", "locked")], text)
    /// });
    /// let app: Router = Router::new().route("/", post(async || "done").route_layer(layer));
    /// let _busy = locks.lock("job").acquire().await?;
    /// let answer = app.oneshot(Request::post("/").body(Body::empty())?).await?;
    /// assert_eq!((answer.status(), &answer.headers()["x-why"]), (StatusCode::CONFLICT, &"locked".parse()?));
    /// # Ok(())
    /// # }
    /// ```
    pub fn respond_with<T: IntoResponse>(
        mut self,
        respond: impl Fn(&LockRejection, &Parts) -> T + Send + Sync + 'static,
    ) -> Self {
        let respond = Arc::new(move |rejection: &LockRejection, parts: &Parts| {
            respond(rejection, parts).into_response()
        });
        self.options.answers.form = Form::Custom(respond);
        self
    }
}
