//! Tests the store as a whole: which entries remain, and which claims are refused.

use std::time::Duration;

use super::{Claims, TTL};
use crate::LockErrorKind;
use crate::backend::memory::Memory;
use crate::backend::{Ask, Attempt, Backend, Mode, Queue};
use crate::clock::Clock;

#[tokio::test(start_paused = true)]
async fn random_operations_leave_no_entry_behind() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let mut random = fastrand::Rng::with_seed(7);
    let mut open = Vec::new();
    for _ in 0..5_000 {
        let key = format!("k{}", random.u8(..50));
        let mode = if random.bool() { Mode::Exclusive } else { Mode::Shared };
        let queue = if random.bool() { Queue::Fifo } else { Queue::Barging };
        let claim = claims.claim(&key, mode, queue);
        let _ = memory.acquire(&claim, Ask::Enqueue { room: None }).await;
        open.push(claim);
        if random.u8(..4) > 0 {
            let claim = open.swap_remove(random.usize(..open.len()));
            memory.give_back(&claim, None, Clock::Tokio.now());
        }
    }
    for claim in &open {
        memory.give_back(claim, None, Clock::Tokio.now());
    }
    assert_eq!(memory.in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_that_ran_out_are_swept() {
    let (memory, claims) = (Memory::new(), Claims::new());
    for round in 0..50 {
        for number in 0..200 {
            let _ = memory.acquire(&claims.exclusive(&format!("{round}:{number}")), Ask::Try).await;
        }
        tokio::time::advance(TTL).await;
    }
    assert!(memory.entries() < 5_000, "{} of 10,000 are left", memory.entries());
}

#[tokio::test(start_paused = true)]
async fn keys_that_were_released_are_swept() {
    let (memory, claims) = (Memory::new(), Claims::new());
    for number in 0..10_000 {
        let claim = claims.exclusive(&number.to_string());
        let _ = memory.acquire(&claim, Ask::Try).await;
        memory.give_back(&claim, None, Clock::Tokio.now());
    }
    assert!(memory.entries() < 2_100, "{} of 10,000 are left", memory.entries());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_had_a_queue_keeps_nothing() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (holder, waiting) = (claims.exclusive("k"), claims.claim("k", Mode::Exclusive, Queue::Fifo));
    let _ = memory.acquire(&holder, Ask::Try).await;
    let _ = memory.acquire(&waiting, Ask::Enqueue { room: None }).await;
    memory.give_back(&waiting, None, Clock::Tokio.now());
    memory.give_back(&holder, None, Clock::Tokio.now());
    assert_eq!(memory.entries(), 0);
}

#[tokio::test]
async fn kinds_that_have_nothing_in_common_refuse_each_other_by_name() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let held = claims.claim("k", Mode::Permit { of: 2 }, Queue::Barging);
    let _ = memory.acquire(&held, Ask::Try).await;
    for (mode, name) in [(Mode::Exclusive, "an exclusive lock"), (Mode::Permit { of: 3 }, "3 permits")] {
        let error = memory
            .acquire(&claims.claim("k", mode, Queue::Fifo), Ask::Enqueue { room: None })
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("2 permits"), "{text}");
    }
    memory.give_back(&held, None, Clock::Tokio.now());
    assert_eq!(memory.in_use(), 0);
}

#[tokio::test]
async fn fencing_tokens_grow_over_stores_too() {
    let claims = Claims::new();
    let mut last = 0;
    for _ in 0..3 {
        let memory = Memory::new();
        for key in ["a", "b"] {
            let attempt = memory.acquire(&claims.exclusive(key), Ask::Try).await.expect("an answer");
            let Attempt::Granted(grant) = attempt else { panic!("{key} is free") };
            let fence = grant.fence.expect("a token with the grant").get();
            assert!(fence > last);
            last = fence;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_repeated_does_not_free_a_key_that_is_kept() {
    let (memory, claims) = (Memory::new(), Claims::new());
    let (claim, other) = (claims.exclusive("k"), claims.exclusive("k"));
    let _ = memory.acquire(&claim, Ask::Try).await;
    memory.give_back(&claim, Some(Duration::from_secs(1)), Clock::Tokio.now());
    memory.give_back(&claim, None, Clock::Tokio.now());
    assert!(matches!(memory.acquire(&other, Ask::Try).await, Ok(Attempt::Held(_))));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(matches!(memory.acquire(&other, Ask::Try).await, Ok(Attempt::Granted(_))));
}
