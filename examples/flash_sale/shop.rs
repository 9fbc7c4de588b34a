//! The service: one route under a `LockLayer`, and the same route without any protection.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use lock_axum::{FencingToken, LockLayer};
use lock_core::{LockError, LockManager};

use crate::stock::{Order, Result, Stock, Taken};

/// The names of the headers that identify the buyer.
pub(crate) const BUYER: &str = "x-buyer";
pub(crate) const REQUEST: &str = "x-request-id";

pub(crate) fn routes(locks: LockManager, stock: Stock) -> std::result::Result<Router, LockError> {
    let one_at_a_time = LockLayer::new(locks)
        .key("item:<item>")
        .ttl(Duration::from_millis(500))
        .wait(Duration::from_millis(100))
        .fencing(true)
        .label("flash sale")
        .check()?;
    Ok(Router::new()
        .route("/orders/{item}", post(order).route_layer(one_at_a_time))
        .route("/careless/{item}", post(order_carelessly))
        .with_state(stock))
}

/// Serves an order. The lock excludes other orders, and the fencing token excludes earlier holders.
async fn order(
    State(stock): State<Stock>,
    Path(item): Path<String>,
    headers: HeaderMap,
    token: FencingToken,
) -> StatusCode {
    answer(&stock.take(order_of(&item, &headers), token.get_i64()).await)
}

async fn order_carelessly(
    State(stock): State<Stock>,
    Path(item): Path<String>,
    headers: HeaderMap,
) -> StatusCode {
    answer(&stock.take_carelessly(order_of(&item, &headers)).await)
}

fn order_of<'a>(item: &'a str, headers: &'a HeaderMap) -> Order<'a> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("unknown");
    Order { item, buyer: header(BUYER), request: header(REQUEST) }
}

fn answer(taken: &Result<Taken>) -> StatusCode {
    match taken {
        Ok(Taken::Sold) => StatusCode::OK,
        Ok(Taken::SoldOut) => StatusCode::GONE,
        Ok(Taken::Late) => StatusCode::PRECONDITION_FAILED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
