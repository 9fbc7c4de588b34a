//! Tests calls that are dropped before they complete.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use super::{Case, Subject, list};
use crate::backend::{Ask, BoxFuture, Capability, Mode, Queue};

/// The number of polls after which a call is no longer dropped, but runs to its end.
const POLLS: usize = 12;

pub(super) fn cases() -> impl IntoIterator<Item = Case> {
    list![|_| true; a_try, a_release, a_renewal]
}

pub(super) fn waiting() -> impl IntoIterator<Item = Case> {
    let fifo = list![|can: &Capability| can.waiting.in_order(); a_place_in_a_queue];
    let notifies = list![|can: &Capability| can.waiting.watches(); a_wait];
    fifo.into_iter().chain(notifies)
}

/// Polls `future` `polls` times, then drops it. Returns whether it completed.
async fn polled<T>(mut future: BoxFuture<'_, T>, polls: usize) -> bool {
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(true),
            // The next poll comes only after a wake-up. Otherwise all polls could stop where the call waits for the
            // same answer.
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A try may be dropped at any poll. A release by its owner then frees every key that the try has acquired.
async fn a_try(subject: Subject) {
    for polls in 0..POLLS {
        let key = subject.key(&polls.to_string());
        let (dropped, next) = (subject.mutex(&key), subject.mutex(&key));
        let complete = polled(subject.backend().acquire_dyn(&dropped, Ask::Try), polls).await;
        subject.release(&dropped).await;
        subject.granted_within(&next, Duration::ZERO).await;
        subject.release(&next).await;
        if complete {
            return;
        }
    }
}

/// A release that is dropped at any poll can be repeated.
async fn a_release(subject: Subject) {
    for polls in 0..POLLS {
        let key = subject.key(&polls.to_string());
        let (claim, next) = (subject.mutex(&key), subject.mutex(&key));
        subject.acquire(&claim).await;
        let complete = polled(subject.backend().release_dyn(&claim, None), polls).await;
        subject.release(&claim).await;
        subject.acquire(&next).await;
        subject.release(&next).await;
        if complete {
            return;
        }
    }
}

/// A renewal that is dropped at any poll leaves the grant to its owner.
async fn a_renewal(subject: Subject) {
    for polls in 0..POLLS {
        let claim = subject.mutex(&subject.key(&polls.to_string()));
        subject.acquire(&claim).await;
        let batch = [crate::backend::Renew { claim: &claim, ttl: subject.long() }];
        let complete = polled(subject.backend().renew_dyn(&batch), polls).await;
        subject.renewed(&claim, subject.long()).await;
        subject.release(&claim).await;
        if complete {
            return;
        }
    }
}

/// A call that enqueues may be dropped at any poll. A release by its owner then removes the queue entry.
async fn a_place_in_a_queue(subject: Subject) {
    for polls in 0..POLLS {
        let key = subject.key(&polls.to_string());
        let [holder, dropped, next] = [(); 3].map(|()| subject.claim(&key, Mode::Exclusive, Queue::Fifo));
        subject.acquire(&holder).await;
        let complete =
            polled(subject.backend().acquire_dyn(&dropped, Ask::Enqueue { room: None }), polls).await;
        subject.release(&dropped).await;
        subject.release(&holder).await;
        let before = subject.now();
        subject.granted_within(&next, Duration::ZERO).await;
        let waited = subject.now().since(before);
        assert!(
            waited < subject.waiter_lease().mul_f64(0.8),
            "free after {waited:?}, as if somebody had died"
        );
        subject.release(&next).await;
        if complete {
            return;
        }
    }
}

/// A dropped wait acquires nothing, and the next waiter is still notified.
async fn a_wait(subject: Subject) {
    let key = subject.key("k");
    let [holder, dropped, waiting] = [(); 3].map(|()| subject.mutex(&key));
    subject.acquire(&holder).await;
    subject.refused(&dropped).await;
    subject.refused(&waiting).await;
    polled(subject.backend().changed_dyn(&dropped), 1).await;
    subject.release(&dropped).await;
    let told = async {
        while !subject.gets(&waiting).await {
            subject.backend().changed_dyn(&waiting).await;
            // This pause lets time pass even if hints arrive without end.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let release = async {
        // The release is sent after the other claim has begun to wait.
        tokio::time::sleep(subject.short() / 4).await;
        subject.release(&holder).await;
    };
    let ((), in_time) = tokio::join!(release, subject.in_time(told));
    assert!(in_time, "nobody told the waiter");
    subject.release(&waiting).await;
}
