//! Calls to several nodes. The caller that waits for the calls also polls them.
//!
//! A task for each call would cost more than the call itself. So the caller polls the calls as part of its own future.
//! When the caller has its verdict or is dropped, the unfinished calls become tasks and continue without the caller.

use std::pin::Pin;
use std::task::Context;

use tokio::runtime::Handle;

use super::deadline::Detached;

/// The calls in progress.
#[derive(Debug)]
pub(super) struct Fanout<F: Future<Output = ()> + Send + 'static> {
    /// The runtime for the remaining calls. It is stored, because a caller may be dropped outside of every runtime.
    runtime: Handle,
    calls: Vec<Pin<Box<F>>>,
    alone: Detached,
}

impl<F: Future<Output = ()> + Send + 'static> Fanout<F> {
    pub(super) fn with_capacity(size: usize) -> Self {
        Self { runtime: Handle::current(), calls: Vec::with_capacity(size), alone: Detached::default() }
    }

    /// Returns the state that shows whether the calls are detached from their caller.
    pub(super) fn alone(&self) -> Detached {
        self.alone.clone()
    }

    /// Adds a call. It begins at the next [`drive`](Self::drive).
    pub(super) fn add(&mut self, call: F) {
        self.calls.push(Box::pin(call));
    }

    /// Spawns a call as a task that is detached from the beginning.
    pub(super) fn send_off(&self, call: F) {
        self.runtime.spawn(call);
    }

    /// Polls the calls. `cx` is woken when one of them can continue.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        self.calls.retain_mut(|call| call.as_mut().poll(cx).is_pending());
    }
}

impl<F: Future<Output = ()> + Send + 'static> Drop for Fanout<F> {
    fn drop(&mut self) {
        // The calls are marked as detached before they are spawned, so that their first poll starts a timer.
        self.alone.set();
        for call in self.calls.drain(..) {
            self.runtime.spawn(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_call_is_driven_by_its_caller_and_goes_on_without_it() {
        let (steps, go, done) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut fanout = Fanout::with_capacity(1);
        let (counted, gate, end) = (Arc::clone(&steps), Arc::clone(&go), Arc::clone(&done));
        fanout.add(async move {
            counted.fetch_add(1, Ordering::SeqCst);
            gate.notified().await;
            counted.fetch_add(1, Ordering::SeqCst);
            end.notify_one();
        });
        tokio::task::yield_now().await;
        assert_eq!(steps.load(Ordering::SeqCst), 0, "nobody drives it");
        std::future::poll_fn(|cx| {
            fanout.drive(cx);
            std::task::Poll::Ready(())
        })
        .await;
        assert_eq!(steps.load(Ordering::SeqCst), 1);
        // This also works if the caller is dropped outside of every runtime.
        std::thread::spawn(move || drop(fanout)).join().expect("no panic");
        go.notify_one();
        done.notified().await;
        assert_eq!(steps.load(Ordering::SeqCst), 2);
    }
}
