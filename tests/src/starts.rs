//! How many servers start at once.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, PoisonError};

/// The number of starts that are under way, and the notification that one of them has ended.
static STARTING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

thread_local! {
    static STARTS: Cell<bool> = const { Cell::new(false) };
}

/// The start of a server, until it is dropped.
#[derive(Debug)]
struct Start {
    is_outermost: bool,
}

/// Starts what takes much computing: a JVM, a cluster, a database. Only as many of them start at once as there are
/// cores, so that the tests that run already get their turn.
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
