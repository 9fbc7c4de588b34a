//! The option `kind`: which calls may run at the same time, and which calls wait.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::{LockError, LockErrorKind, LockManager, distributed_lock};
use tokio::sync::Barrier;

use crate::support::{assert_send, hold};

#[distributed_lock(key = "page:<id>", kind = "read", manager = locks)]
async fn read(locks: &LockManager, id: u64, inside: &Barrier) -> Result<(), LockError> {
    inside.wait().await;
    Ok(())
}

#[distributed_lock(key = "page:<id>", kind = "write", strategy = "fail_fast", manager = locks)]
async fn write(locks: &LockManager, id: u64, inside: &Barrier) -> Result<(), LockError> {
    inside.wait().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn readers_are_inside_together_and_keep_a_writer_out() {
    let (locks, inside) = (LockManager::in_memory(), Barrier::new(3));
    let writer = async {
        tokio::task::yield_now().await;
        // Both readers wait at the barrier inside their bodies. The writer is refused, so this future, and not the body
        // of the writer, is the third at the barrier.
        assert!(write(&locks, 7, &inside).await.unwrap_err().is_contended());
        inside.wait().await;
    };
    let all = async { tokio::join!(read(&locks, 7, &inside), read(&locks, 7, &inside), writer) };
    let all = tokio::time::timeout(Duration::from_secs(1), all).await;
    let (first, second, ()) = all.expect("both readers were inside at one time");
    first.unwrap();
    second.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_writer_is_alone() {
    let (locks, inside) = (LockManager::in_memory(), Barrier::new(2));
    let others = async {
        tokio::task::yield_now().await;
        assert!(write(&locks, 7, &inside).await.unwrap_err().is_contended());
        let open = Barrier::new(1);
        let reader = tokio::time::timeout(Duration::from_secs(1), read(&locks, 7, &open)).await;
        assert!(reader.is_err(), "a reader came in beside the writer");
        read(&locks, 8, &open).await.unwrap();
        inside.wait().await;
    };
    let (written, ()) = tokio::join!(write(&locks, 7, &inside), others);
    written.unwrap();
    read(&locks, 7, &Barrier::new(1)).await.unwrap();
}

#[distributed_lock(key = "desk", kind = "semaphore", permits = 2, strategy = "fail_fast", manager = locks)]
async fn at_a_desk(locks: &LockManager, seated: &Barrier, end: &Barrier) -> Result<(), LockError> {
    seated.wait().await;
    end.wait().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_semaphore_admits_as_many_as_it_has_permits() {
    let (locks, seated, end) = (LockManager::in_memory(), Barrier::new(3), Barrier::new(3));
    let third = async {
        seated.wait().await;
        assert!(at_a_desk(&locks, &seated, &end).await.unwrap_err().is_contended());
        end.wait().await;
    };
    let both =
        async { tokio::join!(at_a_desk(&locks, &seated, &end), at_a_desk(&locks, &seated, &end), third) };
    let (first, second, ()) =
        tokio::time::timeout(Duration::from_secs(1), both).await.expect("two were seated at one time");
    first.unwrap();
    second.unwrap();
}

struct Room {
    locks: LockManager,
    desks: u32,
}

impl Room {
    #[distributed_lock(key = "room", kind = "semaphore", permits = self.desks, strategy = "fail_fast", manager = self.locks)]
    async fn sit(&self) -> Result<(), LockError> {
        Ok(())
    }

    /// Returns the number of free desks.
    #[distributed_lock(key = "room", kind = "semaphore", permits = self.desks, take = party.size, strategy = "fail_fast", manager = self.locks)]
    async fn sit_together(&self, party: Party) -> Result<u32, LockError> {
        self.locks.semaphore("room", self.desks).available().await
    }

    #[distributed_lock(key = "room", kind = "semaphore", permits = 4, take = 3, strategy = "fail_fast", manager = self.locks)]
    async fn three(&self) -> Result<u32, LockError> {
        self.locks.semaphore("room", 4).available().await
    }
}

struct Party {
    size: u32,
}

#[tokio::test]
async fn a_call_takes_all_of_its_permits_or_none() {
    let room = Room { locks: LockManager::in_memory(), desks: 4 };
    assert_eq!(room.three().await.unwrap(), 1);
    for (size, left) in [(1, 3), (3, 1), (4, 0)] {
        assert_eq!(room.sit_together(Party { size }).await.unwrap(), left);
    }
    for (size, says) in [(0, "take is 0"), (5, "the semaphore has 4 permits")] {
        let error = room.sit_together(Party { size }).await.unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let _two = room.locks.semaphore("room", 4).take(2).acquire().await.unwrap();
    assert!(room.three().await.unwrap_err().is_contended());
    assert_eq!(room.sit_together(Party { size: 2 }).await.unwrap(), 0);
}

#[tokio::test]
async fn permits_are_an_expression_of_the_call() {
    let room = Room { locks: LockManager::in_memory(), desks: 2 };
    let _seated = room.locks.semaphore("room", 2).acquire().await.unwrap();
    room.sit().await.unwrap();
    let _full = room.locks.semaphore("room", 2).acquire().await.unwrap();
    assert!(room.sit().await.unwrap_err().is_contended());

    let empty = Room { locks: LockManager::in_memory(), desks: 0 };
    let error = empty.sit().await.unwrap_err();
    assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{error}");
    assert!(error.to_string().contains("0 permits"), "{error}");
}

#[distributed_lock(key = "queue", kind = "fair", strategy = "wait", manager = locks)]
async fn in_order(locks: LockManager, order: Arc<Mutex<Vec<u8>>>, place: u8) -> Result<(), LockError> {
    order.lock().unwrap().push(place);
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_serves_in_the_order_of_arrival() {
    let locks = LockManager::in_memory();
    let order = Arc::new(Mutex::new(Vec::new()));
    let holder = locks.fair("queue").acquire().await.unwrap();
    let mut calls = Vec::new();
    for place in 0..8 {
        calls.push(tokio::spawn(in_order(locks.clone(), Arc::clone(&order), place)));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    holder.release().await.unwrap();
    // A new request would be faster than the first waiter, but must queue behind the last waiter.
    assert!(locks.fair("queue").try_acquire().await.unwrap().is_none());
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[distributed_lock(key = "k", kind = "reentrant", manager = locks)]
async fn as_reentrant<F: Future>(locks: &LockManager, body: F) -> Result<F::Output, LockError> {
    Ok(body.await)
}

#[distributed_lock(key = "k", kind = "fair", manager = locks)]
async fn as_fair<F: Future>(locks: &LockManager, body: F) -> Result<F::Output, LockError> {
    Ok(body.await)
}

#[distributed_lock(key = "k", kind = "read", manager = locks)]
async fn as_reader<F: Future>(locks: &LockManager, body: F) -> Result<F::Output, LockError> {
    Ok(body.await)
}

#[distributed_lock(key = "k", kind = "write", manager = locks)]
async fn as_writer<F: Future>(locks: &LockManager, body: F) -> Result<F::Output, LockError> {
    Ok(body.await)
}

#[distributed_lock(key = "k", kind = "semaphore", permits = 3, manager = locks)]
async fn as_one_of_three<F: Future>(locks: &LockManager, body: F) -> Result<F::Output, LockError> {
    Ok(body.await)
}

#[tokio::test(start_paused = true)]
async fn nested_functions_enter_as_their_kinds_allow() {
    let locks = &LockManager::in_memory();
    let nothing = async || {};
    // These kinds may be nested: the inner call does not wait, and gets no second grant.
    as_writer(locks, as_reader(locks, nothing())).await.unwrap().unwrap();
    as_writer(locks, as_writer(locks, nothing())).await.unwrap().unwrap();
    as_reader(locks, as_reader(locks, nothing())).await.unwrap().unwrap();
    as_reentrant(locks, as_fair(locks, nothing())).await.unwrap().unwrap();
    as_one_of_three(locks, as_one_of_three(locks, nothing())).await.unwrap().unwrap();

    let upgrade = as_reader(locks, as_writer(locks, nothing())).await.unwrap().unwrap_err();
    assert_eq!(upgrade.kind(), LockErrorKind::Upgrade, "{upgrade}");
    let upgrade = as_reader(locks, as_reentrant(locks, nothing())).await.unwrap().unwrap_err();
    assert_eq!(upgrade.kind(), LockErrorKind::Upgrade, "{upgrade}");
    assert_eq!(locks.held(), 0);
}

/// The error names the kind that the outer function holds, so the test would notice two confused kinds.
#[tokio::test]
async fn each_word_is_its_kind() {
    let locks = &LockManager::in_memory();
    let permit = async || locks.semaphore("k", 2).acquire().await.unwrap_err().to_string();
    for (outer, told) in [
        (as_reentrant(locks, permit()).await, "as reentrant"),
        (as_fair(locks, permit()).await, "as fair"),
        (as_writer(locks, permit()).await, "as write"),
        (as_reader(locks, permit()).await, "for reading"),
        (as_one_of_three(locks, permit()).await, "as semaphore(3)"),
    ] {
        let text = outer.unwrap();
        assert!(text.contains(told), "{told}: {text}");
    }
}

#[distributed_lock(key = "page", kind = "read", strategy = "skip", manager = locks)]
async fn read_or_skip(locks: &LockManager) -> Option<u64> {
    Some(1)
}

#[distributed_lock(key = "desk", kind = "semaphore", permits = 1, strategy = "skip", manager = locks)]
async fn sit_or_skip(locks: &LockManager) -> Result<Option<u64>, LockError> {
    Ok(Some(1))
}

#[tokio::test]
async fn a_skip_means_the_same_for_every_kind() {
    let locks = LockManager::in_memory();
    assert_eq!(assert_send(read_or_skip(&locks)).await, Some(1));
    assert_eq!(assert_send(sit_or_skip(&locks)).await.unwrap(), Some(1));
    let _writer = hold(&locks, "page").await;
    let _permit = locks.semaphore("desk", 1).acquire().await.unwrap();
    assert_eq!(read_or_skip(&locks).await, None);
    assert_eq!(sit_or_skip(&locks).await.unwrap(), None);
}
