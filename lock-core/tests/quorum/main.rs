//! Tests of the quorum on nodes in memory, with a paused clock.
#![allow(clippy::disallowed_methods, reason = "tests read the paused clock")]

mod attempts;
mod contract;
mod fencing;
mod keeping;
mod library;
mod node;
mod storm;

use std::time::Duration;

use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::{Ask, Attempt, Backend, Claim, Held, Mode, Queue, Released, Renew, Renewal};
use lock_core::key::Key;
use lock_core::testkit::Claims;
use node::Node;

const TTL: Duration = Duration::from_secs(10);

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn nodes<const N: usize>() -> [Node; N] {
    std::array::from_fn(|number| Node::new(number as u64))
}

fn quorum(nodes: &[Node]) -> Quorum<Node> {
    Quorum::new(nodes.to_vec()).expect("an odd number")
}

fn key() -> Key {
    Key::new("order:42").expect("a key")
}

/// Returns claims of different owners of one manager on one key.
fn claims<const N: usize>() -> [Claim; N] {
    let claims = Claims::new().expect("random bytes");
    std::array::from_fn(|_| claims.exclusive(&key(), TTL))
}

fn reader() -> Claim {
    Claims::new().expect("random bytes").claim(&key(), Mode::Shared, Queue::Barging, TTL)
}

async fn gets(store: &impl Backend, claim: &Claim) -> bool {
    matches!(store.acquire(claim, Ask::Try).await.expect("an answer"), Attempt::Granted(_))
}

async fn held(store: &impl Backend, claim: &Claim) -> Held {
    match store.acquire(claim, Ask::Try).await.expect("an answer") {
        Attempt::Held(held) => held,
        Attempt::Granted(_) => panic!("granted beside a holder"),
    }
}

async fn release(store: &impl Backend, claim: &Claim) -> Released {
    store.release(claim, None).await.expect("an answer")
}

async fn renew(store: &impl Backend, claim: &Claim) -> Renewal {
    store.renew(&[Renew { claim, ttl: claim.ttl }]).await.pop().expect("one answer")
}

/// Lets everything complete that needs no time.
async fn settle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
