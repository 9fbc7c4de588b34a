//! A [tower] layer that runs an HTTP handler under a distributed lock.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use axum::{Router, body::Body, routing::post};
//! use http::{Request, StatusCode};
//! use lock_axum::{LockHandle, LockLayer};
//! use lock_core::LockManager;
//! use tower::ServiceExt;
//!
//! async fn pay(lock: LockHandle) -> String {
//!     format!("paid under {}", lock.key())
//! }
//!
//! let locks = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?
//! let one_at_a_time = LockLayer::new(locks.clone()).key("order:<id>").ttl(Duration::from_secs(5));
//! let app: Router = Router::new().route("/orders/{id}/pay", post(pay).route_layer(one_at_a_time));
//!
//! let request = || Request::post("/orders/42/pay").body(Body::empty());
//! let response = app.clone().oneshot(request()?).await?;
//! assert_eq!(response.status(), StatusCode::OK);
//!
//! let elsewhere = locks.lock("order:42").acquire().await?;
//! let response = app.clone().oneshot(request()?).await?;
//! assert_eq!(response.status(), StatusCode::CONFLICT);
//! assert!(response.headers().contains_key("retry-after"));
//! elsewhere.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What the client gets
//!
//! | outcome | status | `type` of the problem | `Retry-After` |
//! | --- | --- | --- | --- |
//! | another request has the lock | 409 | `lock-contended` | yes |
//! | it had the lock until the wait was over | 409 | `lock-timed-out` | yes |
//! | too many wait | 503 | `lock-overloaded` | yes |
//! | the store of locks does not answer | 503 | `lock-store-unavailable` | if that may pass |
//! | the lock was lost while the handler ran, which is dropped then | 503 | `lock-lost` | no: effects are unknown |
//! | a part of the key is missing or invalid | 400 | `lock-key-invalid` | no |
//! | the manager is shutting down; over HTTP/1 also `Connection: close` | 503 | `lock-shutting-down` | yes |
//! | the layer is set up wrongly; the log says how, once | 500 | `about:blank` | no |
//!
//! The handler runs in none of these cases but `lock-lost`. The answers are `application/problem+json` (RFC 9457) with
//! `type` (behind the prefix `urn:problem-type:`), `title`, `status` and `detail`, and where they apply `lock` (the
//! template of the key; of several keys all, with commas), `retry_after_ms` and `waited_ms`. `Retry-After` is what is
//! left of the holder's lease, rounded up to 1 to 30 seconds: a hint, as a holder that is still at work renews it.
//! Neither the key nor its holder is told to clients.
//!
//! # What may run side by side
//!
//! One request for a key at a time, unless [`kind`](LockLayer::kind) says otherwise: readers beside each other, a number
//! of permits, or the order of arrival. [`keys`](LockLayer::keys) locks several keys at once, all or none.
//!
//! # Where to mount it
//!
//! | mounted by | 404 | 405 | path parameters |
//! | --- | --- | --- | --- |
//! | `MethodRouter::route_layer`: `post(pay).route_layer(..)` | not locked | not locked | all |
//! | `MethodRouter::layer` | not locked | locked | all |
//! | `Router::route_layer` | not locked | locked | all, also those of an outer `nest` |
//! | `Router::layer` | locked only if the key has no path parameter and no `<route>` | locked | all, also those of an outer `nest` |
//! | a layer outside of `nest_service` | | | those outside; the service is *not* locked when one is missing, and a warning says so |
//! | around the whole `Router`, or another tower service | | | none: 500 for a key with path parameters |
//!
//! Prefer the first; to a handler that is mounted by `any(..)`, axum applies `layer` only. Every method is locked, OPTIONS too: answer CORS preflights in a layer outside of this one.
//!
//! The order of layers, from the outside in:
//!
//! | layer | why there |
//! | --- | --- |
//! | trace, request id | they see the refusals too |
//! | timeout | it bounds the wait for the lock as well |
//! | authentication | outside, so that strangers cannot hold locks |
//! | **lock** | |
//! | replay of stored answers (idempotency) | inside, so that of two equal requests the second finds the answer of the first |
//! | handler | |
//!
//! # What is promised
//!
//! - A handler runs at most once, and never without its lock: a store that does not answer is a 503, not a free pass.
//! - The release is awaited before the client can send its next request: see [`Hold`].
//! - When the lock is lost, the handler is dropped at its next await point; a body that is still being sent ends with an
//!   error. What must not happen twice compares the [`FencingToken`].
//! - When the client goes away, the server drops the handler, and the lock is given back in the background. Work that
//!   must go on belongs into a task of its own, which enters [`LockScope::current`](lock_core::LockScope::current) or
//!   takes its own lock.
//! - A nested request for the same key, by another layer or in the handler, enters the same grant. Two layers with
//!   different keys must stand in the same order on every route, or two requests that wait can wait for each other.
//! - A body that holds the lock holds it until the client has read it. For clients that may stop reading, set `max_hold`;
//!   the key is free then when the lease is over, at the latest.
//! - A request that axum found no route for passes unlocked where the key needs a path parameter, and its 404 is not
//!   refused; so does work in a fallback. Mount the layer on the routes that do the work.
//! - An upgrade (101) ends the handler, and with it the lock.

mod body;
mod config;
mod extract;
mod future;
mod hold;
mod key;
mod keys;
mod layer;
mod rejection;
mod service;

pub use body::LockBody;
pub use extract::{FencingToken, LockHandle};
pub use future::ResponseFuture;
pub use hold::Hold;
pub use layer::{Keyed, LockLayer, NoKeyYet};
pub use rejection::LockRejection;
pub use service::Lock;

/// The README, so that its examples compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
