//! Waits until a store reports that one of its servers answers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::backend::{Backend, Listener, NodeAnswer};
use crate::owner::Owner;

/// Waits until a server of the store has answered a ping. Returns the address of the server and the time that the
/// answer took.
///
/// # Panics
/// Panics when no server has answered after `limit`.
///
/// # Cancel safety
/// If the future is dropped, the listener is removed, and the process stays attached.
pub async fn node_answer(backend: &impl Backend, process: u128, limit: Duration) -> (String, Duration) {
    let first = Arc::new(First(watch::Sender::new(None)));
    let listener: Weak<dyn Listener> = Arc::downgrade(&first) as _;
    backend.attach(process, listener, Some(&Handle::current()));
    let mut told = first.0.subscribe();
    let answer = tokio::time::timeout(limit, told.wait_for(Option::is_some)).await;
    let answer = answer.unwrap_or_else(|_| panic!("no server was reported within {limit:?}"));
    answer.ok().and_then(|answer| answer.clone()).expect("the sender is here")
}

/// A listener that keeps the first answer.
#[derive(Debug)]
struct First(watch::Sender<Option<(String, Duration)>>);

impl Listener for First {
    fn granted(&self, _owner: Owner, _waiters: usize) {}

    fn contended(&self, _key: &str) {}

    fn opened(&self, _key: &str) {}

    fn reconnected(&self) {}

    fn node_answered(&self, answer: &NodeAnswer<'_>) {
        let answer = (answer.node.to_owned(), answer.round_trip);
        self.0.send_if_modified(|first| first.is_none() && first.replace(answer).is_none());
    }
}
