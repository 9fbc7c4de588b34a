//! What guards, losses and deadlines do to a hold.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::LossReason;
use crate::guard::LockGuard;
use crate::manager::LockManager;

async fn guard() -> LockGuard {
    LockManager::in_memory().lock("k").acquire().await.expect("it is free")
}

#[tokio::test(start_paused = true)]
async fn both_halves_of_the_deadline_count_and_neither_moves_back() {
    let guard = guard().await;
    let hold = guard.hold();
    let (mono, boot) = hold.deadline().parts();
    hold.leased(Moment::from_parts((mono + 5, boot - 5)), Duration::ZERO);
    assert_eq!(hold.deadline().parts(), (mono + 5, boot));
    hold.leased(Moment::from_parts((mono - 5, boot + 7)), Duration::ZERO);
    assert_eq!(hold.deadline().parts(), (mono + 5, boot + 7));
}

#[tokio::test(start_paused = true)]
async fn nobody_enters_after_the_last_guard_or_a_loss() {
    let ended = guard().await;
    let hold = Arc::clone(ended.hold());
    assert!(hold.enter() && !hold.leave(), "one of two is gone");
    drop(ended);
    assert!(hold.has_ended() && !hold.enter());
    assert!(!hold.lose(LossReason::Taken), "what was given back cannot be lost");
    assert_eq!(hold.loss(), None);

    let lost = guard().await;
    assert!(lost.hold().lose(LossReason::Taken));
    assert!(!lost.hold().enter());
}

#[tokio::test(start_paused = true)]
async fn the_first_reason_of_a_loss_stays_and_danger_is_told_once() {
    let guard = guard().await;
    let hold = guard.hold();
    assert!(hold.endanger() && !hold.endanger());
    assert!(hold.lose(LossReason::Taken) && !hold.lose(LossReason::ShutDown));
    assert!(!hold.endanger());
    hold.renewed(hold.now(), Duration::from_secs(60));
    assert_eq!(hold.loss(), Some(LossReason::Taken), "no renewal brings it back");
}
