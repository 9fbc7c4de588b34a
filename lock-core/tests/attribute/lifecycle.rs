//! The body runs at most once, never unlocked, and is dropped before the lock is released.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};
use tokio::sync::Notify;

use crate::support::{hold, is_held};

#[distributed_lock(key = "k", strategy = "wait", manager = locks)]
async fn counted(locks: &LockManager, runs: &AtomicUsize) -> Result<(), LockError> {
    runs.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_body_runs_once_however_often_the_acquire_is_tried() {
    let locks = LockManager::in_memory();
    let runs = AtomicUsize::new(0);
    let held = hold(&locks, "k").await;
    let call = counted(&locks, &runs);
    let holder = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(runs.load(Ordering::Relaxed), 0, "the body ran without the lock");
        held.release().await.unwrap();
    };
    let (called, ()) = tokio::join!(call, holder);
    called.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn calls_at_the_same_time_exclude_each_other() {
    #[distributed_lock(key = "one", strategy = "wait", manager = locks)]
    async fn alone(locks: LockManager, inside: Arc<AtomicBool>) -> Result<(), LockError> {
        assert!(!inside.swap(true, Ordering::SeqCst), "two bodies at once");
        tokio::task::yield_now().await;
        inside.store(false, Ordering::SeqCst);
        Ok(())
    }

    let locks = LockManager::in_memory();
    let inside = Arc::new(AtomicBool::new(false));
    let calls: Vec<_> = (0..20).map(|_| tokio::spawn(alone(locks.clone(), Arc::clone(&inside)))).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

/// Records on drop whether any lock of the manager is still held.
struct Witness {
    locks: LockManager,
    held_at_drop: Arc<AtomicUsize>,
}

impl Witness {
    fn new(locks: &LockManager) -> (Self, Arc<AtomicUsize>) {
        let held_at_drop = Arc::new(AtomicUsize::new(usize::MAX));
        (Self { locks: locks.clone(), held_at_drop: Arc::clone(&held_at_drop) }, held_at_drop)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.held_at_drop.store(self.locks.held(), Ordering::SeqCst);
    }
}

#[distributed_lock(key = "k", manager = witness.locks)]
async fn finishes(witness: Witness) -> Result<(), LockError> {
    let _local = &witness;
    Ok(())
}

#[distributed_lock(key = "k", manager = witness.locks)]
async fn stays(witness: Witness, entered: &Notify) -> Result<(), LockError> {
    let _local = &witness;
    entered.notify_one();
    std::future::pending().await
}

#[tokio::test]
async fn what_the_body_holds_is_dropped_before_the_lock_is_given_back() {
    let locks = LockManager::in_memory();
    let (witness, held_at_drop) = Witness::new(&locks);
    finishes(witness).await.unwrap();
    assert_eq!(held_at_drop.load(Ordering::SeqCst), 1);
    assert_eq!(locks.held(), 0);
}

#[tokio::test]
async fn a_dropped_call_drops_the_body_first_and_gives_the_lock_back() {
    let locks = LockManager::in_memory();
    let (witness, held_at_drop) = Witness::new(&locks);
    let entered = Notify::new();
    tokio::select! {
        _ = stays(witness, &entered) => unreachable!("it stays"),
        () = entered.notified() => {}
    }
    assert_eq!(held_at_drop.load(Ordering::SeqCst), 1);
    locks.lock("k").acquire().await.unwrap().release().await.unwrap();
}

#[distributed_lock(key = "k", ttl = "100ms", renew = false, manager = locks)]
async fn cancelled(locks: &LockManager, finished: &AtomicBool) -> Result<(), LockError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    finished.store(true, Ordering::SeqCst);
    Ok(())
}

#[distributed_lock(key = "k", ttl = "100ms", renew = false, on_lost = "finish", manager = locks)]
async fn finished(locks: &LockManager, finished: &AtomicBool) -> Result<(), LockError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    finished.store(true, Ordering::SeqCst);
    Ok(())
}

#[distributed_lock(key = "k", ttl = "100ms", manager = locks)]
async fn renewed(locks: &LockManager) -> Result<bool, LockError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(is_held(locks, "k").await)
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_drops_the_body_or_lets_it_finish_and_is_told_either_way() {
    let locks = LockManager::in_memory();
    let flag = AtomicBool::new(false);
    assert!(cancelled(&locks, &flag).await.unwrap_err().is_lost());
    assert!(!flag.load(Ordering::SeqCst), "the body ran on without the lock");
    assert!(finished(&locks, &flag).await.unwrap_err().is_lost());
    assert!(flag.load(Ordering::SeqCst), "the body was to finish");
    assert!(renewed(&locks).await.unwrap());
}

/// Records on drop whether the key is held.
struct Parameter {
    locks: LockManager,
    held: Arc<std::sync::Mutex<Vec<bool>>>,
}

impl Drop for Parameter {
    fn drop(&mut self) {
        self.held.lock().unwrap().push(self.locks.held() == 1);
    }
}

struct Import {
    id: u64,
    file: Parameter,
}

impl Import {
    #[distributed_lock(key = "import:<self.id>", manager = self.file.locks)]
    async fn commit(self, note: Parameter) -> Result<u64, LockError> {
        let _ = note;
        Ok(self.id)
    }
}

#[distributed_lock(key = "import", manager = locks)]
async fn first_of_two((one, two): (Parameter, Parameter), locks: &LockManager) -> Result<(), LockError> {
    drop(one);
    let _ = two;
    Ok(())
}

macro_rules! unmentioned {
    ($name:ident, $argument:ident) => {
        #[distributed_lock(key = "import", manager = locks)]
        #[allow(unused_variables, reason = "the point of the test")]
        async fn $name(locks: &LockManager, note: Parameter, $argument: Parameter) -> Result<(), LockError> {
            Ok(())
        }
    };
}

// Both parameters are spelled `note`, but they are different names, because only one of them comes from the macro.
unmentioned!(no_look_at, note);

/// Parameters, and parts of parameters, that the body does not mention are dropped before the release too.
#[tokio::test]
async fn parameters_are_dropped_before_the_lock_is_given_back() {
    let locks = LockManager::in_memory();
    let held = Arc::new(std::sync::Mutex::new(Vec::new()));
    let witness = || Parameter { locks: locks.clone(), held: Arc::clone(&held) };
    Import { id: 7, file: witness() }.commit(witness()).await.unwrap();
    first_of_two((witness(), witness()), &locks).await.unwrap();
    no_look_at(&locks, witness(), witness()).await.unwrap();
    assert_eq!(*held.lock().unwrap(), [true; 6]);
    assert_eq!(locks.held(), 0);
}

/// Records on drop whether there is a current manager.
struct Looks(Arc<AtomicBool>);

impl Drop for Looks {
    fn drop(&mut self) {
        self.0.store(LockManager::current().is_ok(), Ordering::SeqCst);
    }
}

#[distributed_lock(key = "looks", max_hold = "1s")]
async fn looks(looks: Looks) -> Result<(), LockError> {
    let _looks = looks;
    std::future::pending().await
}

#[tokio::test(start_paused = true)]
async fn a_body_is_dropped_in_the_scope_in_which_it_ran() {
    let locks = LockManager::in_memory();
    let found = Arc::new(AtomicBool::new(false));
    let started = |found: &Arc<AtomicBool>| {
        let mut call = Box::pin(looks(Looks(Arc::clone(found))));
        locks.scope(async move {
            let waited = tokio::time::timeout(Duration::from_millis(1), &mut call).await;
            assert!(waited.is_err(), "the body never ends");
            (call,)
        })
    };
    drop(started(&found).await);
    assert!(found.swap(false, Ordering::SeqCst), "dropped by its caller");
    assert!(started(&found).await.0.await.unwrap_err().is_lost());
    assert!(found.load(Ordering::SeqCst), "dropped because the lock was lost");
}
