//! The route, the lock around it, and the stored answers between them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use lock_axum::{FencingToken, LockLayer, OnDisconnect};
use lock_core::{LockError, LockManager};
use tokio::sync::watch;

use crate::answers::{Answer, Answers};

/// The largest body that is accepted: more than a payment needs.
const LARGEST_BODY: usize = 64 * 1024;

/// The charges of a card.
#[derive(Default)]
pub(crate) struct Card {
    charges: Mutex<Vec<u32>>,
    asked: watch::Sender<()>,
}

impl Card {
    pub(crate) fn charges(&self) -> Vec<u32> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the bank receives a request for another charge, which is not made yet.
    pub(crate) fn asked(&self) -> impl Future<Output = ()> + use<> {
        let mut asked = self.asked.subscribe();
        async move { drop(asked.changed().await) }
    }

    async fn charge(&self, sum: u32) {
        self.asked.send_replace(());
        // The bank takes some time. The copies of the request arrive meanwhile.
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.charges.lock().unwrap_or_else(PoisonError::into_inner).push(sum);
    }
}

pub(crate) fn routes(
    locks: LockManager,
    card: Arc<Card>,
    answers: Arc<Answers>,
) -> Result<Router, LockError> {
    // The tenant is in the key, because two tenants may choose the same idempotency key. With `.wait(..)`, a copy would
    // wait for the first request instead of being refused.
    let one_at_a_time = LockLayer::new(locks)
        .key("payment:<header.x-tenant>:<header.idempotency-key>")
        .ttl(Duration::from_secs(10))
        // With this option, a client that sends its body slowly does not hold the lock meanwhile.
        .after_body(LARGEST_BODY)
        // Without this option, a client that disconnects would drop the payment between the bank and the stored answer,
        // and it would be unknown whether the payment was made.
        .on_disconnect(OnDisconnect::Finish)
        .check()?;
    let pay = post(pay)
        .route_layer(from_fn_with_state(answers, replay))
        // The layer that is added last is the outermost.
        .route_layer(one_at_a_time);
    Ok(Router::new().route("/payments", pay).with_state(card))
}

/// Returns the stored answer, if there is one. This function runs under the lock, so no other request reads or writes
/// the answer for this key at the same time.
async fn replay(
    State(answers): State<Arc<Answers>>,
    FencingToken(token): FencingToken,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let key = name(&parts.headers);
    if let Some(known) = answers.get(&key) {
        return if known.request == body {
            (known.status, [("idempotent-replayed", "true")], known.body).into_response()
        } else {
            (StatusCode::UNPROCESSABLE_ENTITY, "this key was used for another request").into_response()
        };
    }
    let response = next.run(Request::from_parts(parts, body.clone().into())).await;
    keep(&answers, key, token, body, response).await
}

/// Stores the answer if it is final. After a 5xx it is unknown whether the payment was made. The client may retry, and
/// the payment must then check whether the bank has charged the card.
async fn keep(
    answers: &Answers,
    key: String,
    token: lock_core::FencingToken,
    request: Bytes,
    response: Response,
) -> Response {
    let status = response.status();
    let Ok(body) = to_bytes(response.into_body(), LARGEST_BODY).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    if !status.is_server_error() {
        answers.put(key, token, Answer { request, status, body: body.clone() });
    }
    (status, body).into_response()
}

/// Returns the key of the stored answer. The layer refuses requests without these headers.
fn name(headers: &HeaderMap) -> String {
    let part = |name| headers.get(name).map(|value| value.as_bytes().escape_ascii().to_string());
    format!("{:?}", (part("x-tenant"), part("idempotency-key")))
}

async fn pay(State(card): State<Arc<Card>>, sum: String) -> Response {
    let Ok(sum) = sum.parse() else {
        return (StatusCode::BAD_REQUEST, "how much?").into_response();
    };
    card.charge(sum).await;
    (StatusCode::CREATED, format!("paid {sum}")).into_response()
}
