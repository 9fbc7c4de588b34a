//! Sets the options for the answers to requests that are not served.

use std::sync::Arc;
use std::time::Duration;

use axum_core::response::IntoResponse;
use http::StatusCode;
use http::request::Parts;

use super::builder::LockLayer;
use crate::answer::{LockRejection, Outcome};

impl<K> LockLayer<K> {
    /// Answers `outcome` with `status` instead of the status in the [table of the crate](crate#answers).
    ///
    /// [`check`](LockLayer::check) refuses a status other than 4xx and 5xx, and a status together with
    /// [`grpc`](Self::grpc).
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
        self.options.answers.statuses.push((outcome, status));
        self
    }

    /// Answers with 423 Locked instead of 409 if the key is held. Use this for clients that distinguish a lock from
    /// other conflicts.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks).key("order:<id>").locked();
    /// ```
    pub fn locked(self) -> Self {
        self.status_if_held(StatusCode::LOCKED)
    }

    /// Answers with 429 Too Many Requests instead of 409 if the key is held. Most clients and proxies retry after 429
    /// by themselves, but not after 409 or 423.
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// let layer = lock_axum::LockLayer::new(locks).key("order:<id>").too_many_requests();
    /// ```
    pub fn too_many_requests(self) -> Self {
        self.status_if_held(StatusCode::TOO_MANY_REQUESTS)
    }

    fn status_if_held(self, status: StatusCode) -> Self {
        self.status(Outcome::Contended, status).status(Outcome::TimedOut, status)
    }

    /// Sets the `Retry-After` of a client whose request found the key held, at most 30 s. The default is three times
    /// the mean duration of the last requests that this layer has served in this process, or 1 s before the first such
    /// request. This default is at least the [`min_hold`](Self::min_hold), and at most the rest of the lease. Each
    /// answer adds [a random part](crate#answers).
    ///
    /// Set this option if the work continues after the answer under [its own
    /// guard](crate#work-that-outlives-the-answer), because the duration of such work is not measured.
    ///
    /// [`check`](LockLayer::check) refuses a value above 30 s.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use axum::{Router, body::Body, routing::post};
    /// # use http::Request;
    /// # use tower::ServiceExt;
    /// # let locks = lock_core::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let import = lock_axum::LockLayer::new(locks.clone()).key("import").retry_after(Duration::from_secs(20));
    /// let app: Router = Router::new().route("/", post(async || "done").route_layer(import.check()?));
    /// let _busy = locks.lock("import").acquire().await?;
    /// let answer = app.oneshot(Request::post("/").body(Body::empty())?).await?;
    /// let seconds: u64 = answer.headers()["retry-after"].to_str()?.parse()?;
    /// assert!((20..=25).contains(&seconds), "up to a quarter more, so that not all come back together");
    /// # Ok(())
    /// # }
    /// ```
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.options.retry_after = Some(after);
        self
    }

    /// Answers in the form that gRPC expects, for a service of tonic: HTTP status 200, no body, and `grpc-status` in
    /// the head.
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
    /// `grpc-retry-pushback-ms` replaces `Retry-After`. The layer does not read the message. So the values of a key
    /// come from the metadata (`<header.x-order>`), from the method (`<uri.path>`) or from
    /// [`key_fn`](LockLayer::key_fn). The lock of a streamed answer is held until the stream has ended, as for every
    /// body of unknown length.
    ///
    /// **Wrap one service**, with `named_layer` of tonic's `LayerExt`. `Server::builder().layer(layer)` locks every
    /// service, including health and reflection, which have no `x-order`. If you need such a layer, exclude requests by
    /// their path with [`skip_if`](Self::skip_if). The example `tonic` in the repository shows both ways.
    ///
    /// [`check`](LockLayer::check) refuses `grpc` together with [`status`](Self::status) or
    /// [`respond_with`](Self::respond_with).
    ///
    /// # Examples
    /// ```
    /// # let locks = lock_core::LockManager::in_memory();
    /// use lock_axum::LockLayer;
    ///
    /// let layer = LockLayer::new(locks.clone()).key("order:<header.x-order>").grpc();
    /// // use tonic::service::LayerExt;
    /// // Server::builder().add_service(health).add_service(layer.named_layer(OrdersServer::new(orders)))
    ///
    /// let for_all = LockLayer::new(locks)
    ///     .key("order:<header.x-order>")
    ///     .skip_if(|request| !request.uri.path().starts_with("/shop.Orders/"))
    ///     .grpc();
    /// // Server::builder().layer(for_all).add_service(health).add_service(OrdersServer::new(orders))
    /// ```
    pub fn grpc(mut self) -> Self {
        self.options.answers.is_grpc = true;
        self
    }

    /// Sets a function that makes the answer to a request that is not served. The function gets the rejection and the
    /// head of the request. It returns any type that a handler can return, such as `(StatusCode::LOCKED, Json(..))`.
    /// [`LockRejection::to_response`] returns the default answer, which the function can change.
    ///
    /// The head is cloned before the handler runs, which costs about a microsecond per request.
    ///
    /// [`check`](LockLayer::check) refuses `respond_with` together with [`grpc`](Self::grpc).
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
        self.options.answers.respond = Some(respond);
        self
    }
}
