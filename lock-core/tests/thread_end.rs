//! Tests a call that a thread drops while the thread ends. This test has its own process: a thread whose thread-locals
//! are destroyed cannot read tokio's clock after any test has paused that clock.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{LockError, LockManager, distributed_lock};

type Call = Pin<Box<dyn Future<Output = Result<(), LockError>>>>;

thread_local! {
    static LEFT: RefCell<Option<Call>> = const { RefCell::new(None) };
}

/// Records that it was dropped.
struct Witness(Arc<AtomicBool>);

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[distributed_lock(key = "left", manager = locks)]
async fn left(locks: LockManager, witness: Witness) -> Result<(), LockError> {
    let _witness = witness;
    std::future::pending().await
}

/// A panic in the destructor of a thread-local ends the process.
#[test]
fn a_call_may_be_dropped_by_a_thread_that_ends() {
    let dropped = Arc::new(AtomicBool::new(false));
    let witness = Witness(Arc::clone(&dropped));
    let leaves = move || {
        // `LEFT` is created first, so it is destroyed last, after the task-locals.
        LEFT.with(|left| left.borrow_mut().take());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut call: Call = Box::pin(left(LockManager::in_memory(), witness));
            let waited = tokio::time::timeout(Duration::from_millis(1), &mut call).await;
            assert!(waited.is_err(), "the body never ends");
            LEFT.with(|left| *left.borrow_mut() = Some(call));
        });
    };
    std::thread::spawn(leaves).join().unwrap();
    assert!(dropped.load(Ordering::SeqCst));
}
