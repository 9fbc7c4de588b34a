//! The service: an axum router under locks, and a "database" that does not protect itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use lock_axum::LockLayer;
use lock_core::{LockError, LockManager, distributed_lock};

/// The time that one database statement takes.
const DATABASE: Duration = Duration::from_millis(1);

/// The stock of one item, which a careless service reads and writes in two statements.
#[derive(Debug)]
pub(crate) struct Shop {
    stock: AtomicI64,
    sold: AtomicU64,
    longest_wait: AtomicU64,
    job_runs: AtomicBool,
}

impl Shop {
    pub(crate) fn new(stock: u32) -> Self {
        Self {
            stock: AtomicI64::new(stock.into()),
            sold: AtomicU64::new(0),
            longest_wait: AtomicU64::new(0),
            job_runs: AtomicBool::new(false),
        }
    }

    pub(crate) fn restock(&self, stock: u32) {
        self.stock.store(stock.into(), Ordering::SeqCst);
        self.sold.store(0, Ordering::SeqCst);
        self.longest_wait.store(0, Ordering::SeqCst);
    }

    pub(crate) fn sold(&self) -> u64 {
        self.sold.load(Ordering::SeqCst)
    }

    pub(crate) fn longest_wait(&self) -> Duration {
        Duration::from_micros(self.longest_wait.load(Ordering::SeqCst))
    }

    /// Reads the stock, then writes it back. This is correct only if no other order is served in between.
    async fn sell_one(&self) -> Result<(), OrderError> {
        let stock = self.stock.load(Ordering::SeqCst);
        tokio::time::sleep(DATABASE).await;
        if stock <= 0 {
            return Err(OrderError::SoldOut);
        }
        self.stock.store(stock - 1, Ordering::SeqCst);
        self.sold.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// The reason for which an order is refused.
#[derive(Debug)]
pub(crate) enum OrderError {
    SoldOut,
    Lock(LockError),
}

impl From<LockError> for OrderError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl fmt::Display for OrderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SoldOut => f.write_str("sold out"),
            Self::Lock(error) => error.fmt(f),
        }
    }
}

impl IntoResponse for OrderError {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::SoldOut => StatusCode::GONE,
            Self::Lock(error) if error.is_contended() => StatusCode::CONFLICT,
            Self::Lock(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, self.to_string()).into_response()
    }
}

pub(crate) fn routes(shop: Arc<Shop>, locks: LockManager) -> Result<Router, LockError> {
    // The service serves one order at a time for each person, so the second request of a double click gets 409.
    let double_click = LockLayer::new(locks).key("cart:<person>").ttl(Duration::from_secs(5)).check()?;
    Ok(Router::new()
        .route("/orders/{item}/{person}", post(order).route_layer(double_click))
        .route("/unlocked/{item}/{person}", post(order_unlocked))
        .route("/jobs/{name}", post(job))
        .with_state(shop))
}

async fn order(
    State(shop): State<Arc<Shop>>,
    Path((item, _person)): Path<(String, String)>,
) -> Result<&'static str, OrderError> {
    buy(&shop, &item, asked_now()).await?;
    Ok("yours")
}

/// Sells one item at a time, on all machines together.
#[distributed_lock(key = "stock:<item>", ttl = "5s", strategy = "retry", wait = "30s")]
async fn buy(shop: &Shop, item: &str, asked: Instant) -> Result<(), OrderError> {
    let waited = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
    shop.longest_wait.fetch_max(waited, Ordering::SeqCst);
    shop.sell_one().await
}

#[allow(clippy::disallowed_methods, reason = "the demonstration measures how long people wait")]
fn asked_now() -> Instant {
    Instant::now()
}

/// Serves the same order without the lock, for comparison.
async fn order_unlocked(State(shop): State<Arc<Shop>>) -> Result<&'static str, OrderError> {
    shop.sell_one().await?;
    Ok("yours")
}

async fn job(State(shop): State<Arc<Shop>>, Path(name): Path<String>) -> Response {
    match run_job(&shop, &name).await {
        Ok(()) => "done".into_response(),
        Err(error) if error.is_contended() => {
            let holder = error.holder().map_or_else(|| "somebody".to_owned(), ToString::to_string);
            (StatusCode::CONFLICT, format!("held by {holder}")).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

/// Runs one job at a time in the whole fleet. If this machine crashes, another one can take over after `ttl`. The lock
/// is renewed while the job runs.
#[distributed_lock(key = "job:<name>", ttl = "5s", strategy = "fail_fast")]
async fn run_job(shop: &Shop, name: &str) -> Result<(), LockError> {
    let alone = !shop.job_runs.swap(true, Ordering::SeqCst);
    assert!(alone, "{name} runs twice at the same time");
    tokio::time::sleep(Duration::from_millis(300)).await;
    shop.job_runs.store(false, Ordering::SeqCst);
    Ok(())
}
