//! A payment that is made once, however often the client sends it: `Idempotency-Key`.
//!
//! ```sh
//! cargo run -p lock-examples --example idempotency                                                    # locks in memory
//! LOCK_URL=redis://127.0.0.1:6379/ cargo run -p lock-examples --features redis --example idempotency  # the same on Redis
//! ```
//!
//! The service needs a lock and stored answers; one alone is not enough. With only *stored answers*, two copies of a
//! request that arrive together find no answer, and both pay. With only *a lock*, the second copy waits or is refused,
//! and then pays again. Here the lock is the outer layer, and the stored answers are inside it:
//!
//! | request | answer |
//! | --- | --- |
//! | without the header | 400, by the layer |
//! | while the first request with this key is being served | 409 with `Retry-After`, by the layer |
//! | the same request again | the answer to the first, with `idempotent-replayed: true` |
//! | the same key with another body | 422 |
//! | again, after the client disconnected in the middle | as above: the payment continues without its client |
//!
//! A process that is killed in the middle leaves a payment without an answer. In that case send the bank the same key
//! again: the bank answers with the result of the first try.
//!
//! `payments.rs` has the routes, `answers.rs` the stored answers. The program sends such requests to its own service
//! and prints the answers. It exits with status 1 if the card was not charged exactly once for each payment.
#![allow(clippy::print_stdout, reason = "the report is what this program is for")]

mod answers;
mod payments;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use lock_core::ManagerBuilder;
use tokio::task::JoinSet;
use tower::ServiceExt;

use answers::Answers;
use payments::Card;

const COPIES: usize = 5;

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let locks = ManagerBuilder::from_env_or("memory://").await?.service("payments").build()?;
    let card = Arc::new(Card::default());
    let app = payments::routes(locks, Arc::clone(&card), Arc::new(Answers::default()))?;

    println!("{COPIES} copies of one payment at the same moment");
    let mut copies = JoinSet::new();
    for _ in 0..COPIES {
        copies.spawn(pay(app.clone(), Some("k-1"), "30"));
    }
    while let Some(copy) = copies.join_next().await {
        println!("  {}", copy?);
    }
    println!("the same once more\n  {}", pay(app.clone(), Some("k-1"), "30").await);
    println!("the same key for another sum\n  {}", pay(app.clone(), Some("k-1"), "31").await);
    println!("no key\n  {}", pay(app.clone(), None, "30").await);
    println!("another payment\n  {}", pay(app.clone(), Some("k-2"), "30").await);

    // When a client disconnects, the server drops its request.
    let asked = card.asked();
    tokio::select! {
        answer = pay(app.clone(), Some("k-3"), "50") => return Err(format!("too early: {answer}").into()),
        () = asked => println!("a client that disconnects while the bank is asked"),
    }
    let replayed = loop {
        let answer = pay(app.clone(), Some("k-3"), "50").await;
        println!("  {answer}");
        if !answer.starts_with("409") {
            break answer.contains("idempotent-replayed");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };

    let charges = card.charges();
    println!("\nthe card was charged {} times: {charges:?}", charges.len());
    Ok(if replayed && charges == [30, 30, 50] { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends a payment, and returns the answer as a line of text.
async fn pay(app: Router, key: Option<&str>, sum: &'static str) -> String {
    let mut request = Request::post("/payments").header("x-tenant", "ann");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let request = request.body(Body::from(sum)).expect("a good request");
    let answer = app.oneshot(request).await.unwrap_or_else(|never| match never {});
    let notes: Vec<String> = ["retry-after", "idempotent-replayed"]
        .iter()
        .filter_map(|name| Some(format!("{name}: {}", answer.headers().get(*name)?.to_str().ok()?)))
        .collect();
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap_or_default();
    format!("{status} {} {}", String::from_utf8_lossy(&body), notes.join(", "))
}
