//! Tests the queue without a store. `tests/locks/handoff.rs` tests hand-offs and quanta with a store.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::waiter::Waiter;
use super::{Expected, HandedOff, LocalQueue};
use crate::backend::memory::Memory;
use crate::backend::{Backend, Capability, WAITER_LEASE, Waiting};
use crate::key::Key;
use crate::manager::LockManager;
use crate::owner::{Owner, OwnerSource};

pub(super) const TTL: Duration = Duration::from_secs(10);

pub(super) fn local_queue() -> LocalQueue {
    LocalQueue::new(&Memory::new().capability())
}

pub(super) fn key() -> Key {
    Key::new("order:1").expect("a key")
}

/// Returns one of four owners of the same process.
pub(super) fn owner(number: usize) -> Owner {
    static OWNERS: LazyLock<[Owner; 4]> = LazyLock::new(|| {
        let source = OwnerSource::new().expect("random bytes");
        [(); 4].map(|()| source.mint())
    });
    OWNERS[number]
}

fn join(local_queue: &LocalQueue) -> Waiter<'_> {
    Waiter::join(local_queue, &key(), 9, TTL, local_queue.clock.now()).expect("there is room")
}

async fn is_asked(waiter: &Waiter<'_>) -> bool {
    tokio::time::timeout(Duration::from_millis(1), waiter.notified()).await.is_ok() && waiter.take_ask()
}

#[test]
fn a_full_queue_is_not_joined() {
    let local_queue = local_queue();
    let first = Waiter::join(&local_queue, &key(), 1, TTL, local_queue.clock.now()).expect("there is room");
    assert_eq!(Waiter::join(&local_queue, &key(), 1, TTL, local_queue.clock.now()).err(), Some(1));
    assert_eq!(Waiter::join(&local_queue, &key(), 0, TTL, local_queue.clock.now()).err(), Some(1));
    drop(first);
    assert!(
        Waiter::join(&local_queue, &key(), 1, TTL, local_queue.clock.now()).is_ok() && local_queue.is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn every_waiter_is_woken() {
    let local_queue = local_queue();
    let other = Key::new("order:2").expect("a key");
    let elsewhere =
        Waiter::join(&local_queue, &other, 9, TTL, local_queue.clock.now()).expect("there is room");
    let waiting = [join(&local_queue), join(&local_queue), elsewhere];
    let woken = async || {
        let mut woken = 0;
        for waiter in &waiting {
            woken += usize::from(tokio::time::timeout(Duration::ZERO, waiter.notified()).await.is_ok());
        }
        woken
    };
    assert_eq!(woken().await, 0);
    local_queue.wake_all();
    assert_eq!(woken().await, waiting.len());
}

#[tokio::test(start_paused = true)]
async fn the_head_asks_the_store_and_is_notified_of_a_release() {
    let local_queue = local_queue();
    let (first, second) = (join(&local_queue), join(&local_queue));
    assert!(first.take_ask() && !first.take_ask() && !second.take_ask(), "the head, once");
    assert!(!is_asked(&first).await);
    local_queue.freed(&key(), owner(1));
    assert!(is_asked(&first).await && !is_asked(&second).await);
    assert_eq!((local_queue.waiters(&key()), first.others()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_leaves_passes_the_news_on() {
    let local_queue = local_queue();
    let (first, second, third) = (join(&local_queue), join(&local_queue), join(&local_queue));
    local_queue.freed(&key(), owner(1));
    drop(second);
    drop(first);
    assert!(is_asked(&third).await && third.is_head());
    drop(third);
    assert!(local_queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_a_holder_came_through_the_queue_newcomers_do_not_ask() {
    let local_queue = local_queue();
    let (mut first, second) = (join(&local_queue), join(&local_queue));
    assert!(first.take_ask());
    first.granted(owner(1), false);
    drop(first);
    assert!(second.is_head() && !is_asked(&second).await, "it waits for the holder");
    drop(second);
    assert!(local_queue.is_busy(&key()) && local_queue.waiters(&key()) == 0);
    let third = join(&local_queue);
    assert!(!third.take_ask());
    local_queue.freed(&key(), owner(1));
    assert!(is_asked(&third).await);
    drop(third);
    assert!(local_queue.is_empty());
}

/// A waiter that gives up releases its entry in the store's queue. The answer to that release may be processed late.
#[tokio::test(start_paused = true)]
async fn the_release_of_another_owner_says_nothing_of_the_holder() {
    let local_queue = local_queue();
    let mut holder = join(&local_queue);
    holder.granted(owner(1), false);
    drop(holder);
    let waiter = join(&local_queue);
    local_queue.contended(&key());
    local_queue.freed(&key(), owner(2));
    assert!(local_queue.is_contended(&key()), "somebody still waits elsewhere");
    assert!(!is_asked(&waiter).await, "the key is still held");
    local_queue.freed(&key(), owner(1));
    assert!(is_asked(&waiter).await);
}

/// The guard of a lost lock is dropped late, when another waiter of its process already has the key.
#[tokio::test(start_paused = true)]
async fn the_late_guard_of_a_lost_grant_changes_nothing_for_the_holder() {
    let local_queue = local_queue();
    let (mut holder, waiter) = (join(&local_queue), join(&local_queue));
    holder.granted(owner(2), false);
    drop(holder);
    local_queue.contended(&key());
    let hand_off = |owner| {
        let mut wanted = false;
        let handoff = |_: Option<Duration>, _| {
            wanted = true;
            None
        };
        let now = || local_queue.clock.now();
        let stays = local_queue.hand_off(&key(), owner, None, now, handoff, || false) != HandedOff::No;
        (stays, wanted)
    };
    assert_eq!(hand_off(owner(1)), (false, false), "its grant is no longer the one that is waited for");
    assert!(local_queue.is_contended(&key()), "somebody still waits elsewhere");
    local_queue.freed(&key(), owner(1));
    assert!(!is_asked(&waiter).await, "the key is still held");
    assert_eq!(hand_off(owner(2)), (false, true), "this one would be handed off");
    assert!(!local_queue.is_contended(&key()));
    local_queue.freed(&key(), owner(2));
    assert!(is_asked(&waiter).await);
}

/// A request that may not use a lingering grant releases it. Before the answer is processed, the store grants the key
/// to another request of this process, and another process waits for that grant.
#[tokio::test(start_paused = true)]
async fn a_late_answer_to_a_release_forgets_nobody_who_waits_for_the_next_grant() {
    let local_queue = local_queue();
    let mut holder = join(&local_queue);
    let expected = Expected::new(&local_queue, &key());
    holder.granted(owner(1), false);
    drop(holder);
    local_queue.contended(&key());
    local_queue.freed(&key(), owner(1));
    expected.granted(owner(2), false);
    assert!(local_queue.is_contended(&key()), "its grant must not linger");
}

#[tokio::test(start_paused = true)]
async fn a_notification_after_a_release_counts_for_the_next_grant() {
    let local_queue = local_queue();
    let (mut holder, mut next) = (join(&local_queue), join(&local_queue));
    holder.granted(owner(1), true);
    drop(holder);
    assert!(
        local_queue.hand_off(&key(), owner(1), None, || local_queue.clock.now(), |_, _| None, || false)
            == HandedOff::No,
        "it goes to the store"
    );
    assert!(!local_queue.is_contended(&key()), "that is over");
    local_queue.contended(&key());
    local_queue.freed(&key(), owner(1));
    next.granted(owner(2), false);
    assert!(local_queue.is_contended(&key()), "it was told before its answer was looked at");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_tell_of_others_counts_as_contended() {
    for (tells, others, contended) in [(true, false, false), (true, true, true), (false, false, true)] {
        let waiting = Waiting::Watch { waiter_lease: WAITER_LEASE, tells_holder: tells };
        let local_queue = LocalQueue::new(&Capability { waiting, ..Memory::new().capability() });
        let mut first = join(&local_queue);
        let _second = join(&local_queue);
        first.granted(owner(1), others);
        assert_eq!(local_queue.is_contended(&key()), contended);
        local_queue.contended(&key());
        assert!(local_queue.is_contended(&key()));
    }
}

#[test]
fn the_notification_of_a_waiter_may_overtake_a_grant_that_may_linger() {
    let local_queue = local_queue();
    let expected = Expected::new(&local_queue, &key());
    assert!(!local_queue.is_busy(&key()), "others ask the store as ever");
    local_queue.contended(&key());
    expected.granted(owner(1), false);
    drop(expected);
    assert!(local_queue.is_busy(&key()) && local_queue.is_contended(&key()));
    local_queue.freed(&key(), owner(1));
    assert!(local_queue.is_empty());

    let expected = Expected::new(&local_queue, &key());
    expected.granted(owner(1), true);
    assert!(local_queue.is_contended(&key()), "the answer said it");
    local_queue.freed(&key(), owner(1));
    drop(expected);
    assert!(local_queue.is_empty());
    drop(Expected::new(&local_queue, &key()));
    assert!(local_queue.is_empty(), "nothing was granted");
}

#[test]
fn a_key_that_was_held_is_remembered_until_it_is_found_free() {
    let local_queue = local_queue();
    assert!(!local_queue.was_held(&key()));
    local_queue.record_held(&key(), true);
    assert!(local_queue.was_held(&key()));
    local_queue.record_held(&key(), false);
    assert!(!local_queue.was_held(&key()));
}

/// The grant stops lingering and counts as being released in one step. Between two separate steps, another task could
/// send a request, which the store could refuse because of a grant of the same process.
#[tokio::test(start_paused = true)]
async fn a_grant_that_ceases_to_linger_counts_as_being_released_in_the_same_step() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").ttl(TTL).linger(Duration::from_secs(1)).acquire().await.expect("it is free");
    let (engine, key) = (Arc::clone(&guard.lease().engine), guard.lease().claim().key.clone());
    let begun = || engine.cleanup.under_way.first(&key, u64::MAX, engine.clock.now()).is_some();
    guard.release().await.expect("it lingers");
    assert!(engine.local_queue.lingers(&key) && !begun());
    let ended = engine.local_queue.take_all_lingering(|_| true);
    assert_eq!((ended.len(), begun()), (1, true));
    drop(ended);
    assert!(!begun(), "memory has answered");
    assert!(locks.lock("k").ttl(TTL).acquire().await.is_ok());
}

mod notified {
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;
    use crate::local_queue::waiter_node::WaiterNode;

    /// A waker that counts how often it was used.
    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Counts {
        fn woken(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn poll(future: Pin<&mut impl Future<Output = ()>>, by: &Arc<Counts>) -> Poll<()> {
        future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(by))))
    }

    fn node() -> WaiterNode {
        WaiterNode::new(TTL, local_queue().clock.now())
    }

    #[test]
    fn what_came_between_two_waits_is_not_missed_and_counts_once() {
        let (node, task) = (node(), Arc::default());
        node.notify();
        node.notify();
        assert!(poll(pin!(node.notified()), &task).is_ready());
        let mut next = pin!(node.notified());
        assert!(poll(next.as_mut(), &task).is_pending());
        node.notify();
        assert_eq!(task.woken(), 1);
        assert!(poll(next, &task).is_ready());
        assert!(poll(pin!(node.notified()), &task).is_pending());
    }

    #[test]
    fn one_that_was_notified_and_dropped_leaves_it_to_the_next() {
        let (node, task) = (node(), Arc::default());
        {
            let mut dropped = pin!(node.notified());
            assert!(poll(dropped.as_mut(), &task).is_pending());
            node.notify();
        }
        assert!(poll(pin!(node.notified()), &task).is_ready());
    }

    #[test]
    fn the_task_that_polled_last_is_woken() {
        let (node, first, second) = (node(), Arc::default(), Arc::default());
        let mut notified = pin!(node.notified());
        for task in [&first, &first, &second] {
            assert!(poll(notified.as_mut(), task).is_pending());
        }
        node.notify();
        assert_eq!((first.woken(), second.woken()), (0, 1));
        assert!(poll(notified, &first).is_ready());
    }

    /// A waker that notifies the node when it is dropped. A real waker may do the same, because it may drop a task with
    /// all values of the task.
    struct Notifies(Arc<WaiterNode>);

    impl Wake for Notifies {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Notifies {
        fn drop(&mut self) {
            self.0.notify();
        }
    }

    #[test]
    fn no_waker_is_dropped_under_the_lock() {
        let (node, last) = (Arc::new(node()), Arc::<Counts>::default());
        let poll_once = |notified: Pin<&mut _>| {
            let waker = Waker::from(Arc::new(Notifies(Arc::clone(&node))));
            Future::poll(notified, &mut Context::from_waker(&waker))
        };
        {
            let mut notified = pin!(node.notified());
            assert!(poll_once(notified.as_mut()).is_pending());
            // This poll replaces the waker, and dropping the old waker notifies.
            assert!(poll(notified.as_mut(), &last).is_pending());
            assert_eq!(last.woken(), 1);
            assert!(poll(notified, &last).is_ready());
        }
        {
            let mut dropped = pin!(node.notified());
            assert!(poll_once(dropped.as_mut()).is_pending());
        }
        assert!(poll(pin!(node.notified()), &last).is_ready(), "by the drop of its waker");
    }

    /// If the node kept a waker, the waker would be dropped with the node, under the lock of the queue.
    #[test]
    fn no_waker_stays_in_the_node() {
        let (node, first, second) = (node(), Arc::<Counts>::default(), Arc::<Counts>::default());
        {
            let mut dropped = pin!(node.notified());
            assert!(poll(dropped.as_mut(), &first).is_pending());
            assert_eq!(Arc::strong_count(&first), 2);
            assert!(poll(dropped.as_mut(), &second).is_pending());
            assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 2));
        }
        assert_eq!(Arc::strong_count(&second), 1, "dropped with its future");
        let mut notified = pin!(node.notified());
        assert!(poll(notified.as_mut(), &first).is_pending());
        node.notify();
        assert_eq!(Arc::strong_count(&first), 1, "taken by whoever notifies");
        assert!(poll(notified, &first).is_ready());
        assert_eq!(Arc::strong_count(&first), 1);
    }
}
