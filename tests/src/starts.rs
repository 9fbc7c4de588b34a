//! Limits the number of simultaneous server starts.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, PoisonError};

/// The number of current starts, and the notification that one of them has ended.
static STARTING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

thread_local! {
    static STARTS: Cell<bool> = const { Cell::new(false) };
}

/// A start of a server, which is over when this value is dropped.
#[derive(Debug)]
struct Start {
    is_outermost: bool,
}

/// Runs a start that needs much computing time, such as that of a JVM, a cluster or a database. At most as many of them
/// run at once as there are cores, so that the running tests get computing time.
pub(crate) fn start_in_turn<T>(start: impl FnOnce() -> T) -> T {
    let _start = Start::begin();
    start()
}

impl Start {
    fn begin() -> Self {
        let is_outermost = !STARTS.replace(true);
        if is_outermost {
            let limit = std::thread::available_parallelism().map_or(1, NonZero::get);
            let count = STARTING.0.lock().unwrap_or_else(PoisonError::into_inner);
            let mut count =
                STARTING.1.wait_while(count, |count| *count >= limit).unwrap_or_else(PoisonError::into_inner);
            *count += 1;
        }
        Self { is_outermost }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        if self.is_outermost {
            STARTS.set(false);
            *STARTING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
            STARTING.1.notify_one();
        }
    }
}
