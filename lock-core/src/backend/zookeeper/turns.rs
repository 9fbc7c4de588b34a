//! Keeps the order of the claims that arrive at a key without a directory.
//!
//! A claim whose key has no directory creates it, and requests its node again. A claim that arrives a moment later
//! finds the directory, and could get a place before the first claim. So while it is unknown whether the directory
//! exists, the claims of a session request their nodes in turn. The first claim requests its node alone. The others
//! follow right after its answer, in the order of arrival.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard};
use tokio::time::timeout;

use crate::sync::{Mutex, survives};

/// The longest time for which a claim waits for earlier claims, whose runtime may have stopped. A claim that stops
/// waiting loses only its place in the order.
const PATIENCE: Duration = Duration::from_secs(1);

/// The directories that claims of the session are about to find or create, each with the queue of these claims. The
/// value in the queue says whether an earlier claim has found or created the directory.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<String, Weak<Turnstile<bool>>>>);

/// The turn of a claim. When this value is dropped, the next claim has its turn.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    directory: String,
    found: Option<OwnedMutexGuard<bool>>,
}

impl Turns {
    /// Waits for at most `patience` until earlier claims have requested their nodes. If the `directory` is known to
    /// exist, waits only if other claims already wait here. Returns `None` if the claim needs no turn.
    pub(super) async fn begin(&self, directory: &str, exists: bool, patience: Duration) -> Option<Turn<'_>> {
        let turnstile = self.turnstile(directory, exists)?;
        // The turn removes the entry of the directory if this future is dropped during the wait. So the turn is created
        // before the wait, and dropped after `waiting`, which has the last reference to the turnstile.
        let mut turn = Turn { turns: self, directory: directory.to_owned(), found: None };
        let given_up = Arc::downgrade(&turnstile);
        let waiting = turnstile.lock_owned();
        if let Ok(found) = timeout(patience.min(PATIENCE), waiting).await {
            turn.found = Some(found);
            return Some(turn);
        }
        // The turnstile is forgotten, so that later claims do not wait for a claim that is not polled.
        self.0.lock().retain(|_, known| !known.ptr_eq(&given_up));
        None
    }

    fn turnstile(&self, directory: &str, exists: bool) -> Option<Arc<Turnstile<bool>>> {
        let mut turns = self.0.lock();
        if let Some(turnstile) = turns.get(directory).and_then(Weak::upgrade) {
            return Some(turnstile);
        }
        let new = (!exists).then(Arc::default)?;
        turns.insert(directory.to_owned(), Arc::downgrade(&new));
        Some(new)
    }
}

impl Turn<'_> {
    /// Ends the turn of a claim that has just sent its request, if an earlier claim has found the directory.
    pub(super) fn sent(turn: &mut Option<Self>) {
        drop(turn.take_if(|turn| turn.found.as_deref() == Some(&true)));
    }

    /// Records that the directory exists, so that the other claims request their nodes at once.
    pub(super) fn found(mut self) {
        if let Some(found) = self.found.as_deref_mut() {
            *found = true;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // This wakes the next claim, so it must happen before the mutex is locked.
        survives(|| self.found = None);
        let mut turns = self.turns.0.lock();
        if turns.get(&self.directory).is_some_and(|turnstile| turnstile.strong_count() == 0) {
            turns.remove(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::task::{JoinSet, yield_now};

    use super::*;
    use crate::clock::Clock;

    /// Starts claims one after the other, and returns the order in which they request their nodes. The last claims
    /// start when the first claim is about to be answered. The first claim finds the directory, or fails.
    async fn order(first_finds: bool) -> Vec<usize> {
        let (turns, requested) = (Arc::new(Turns::default()), Arc::new(Mutex::new(Vec::new())));
        let (answered, mut tasks) = (Arc::new(tokio::sync::Notify::new()), JoinSet::new());
        let exists = Arc::new(AtomicBool::new(false));
        for number in 0..6 {
            let (turns, requested, answered, exists) =
                (Arc::clone(&turns), Arc::clone(&requested), Arc::clone(&answered), Arc::clone(&exists));
            tasks.spawn(async move {
                let mut turn = turns.begin("/k", exists.load(Ordering::SeqCst), PATIENCE).await;
                requested.lock().push(number);
                Turn::sent(&mut turn);
                let Some(turn) = turn else { return };
                answered.notified().await;
                if first_finds || number > 0 {
                    exists.store(true, Ordering::SeqCst);
                    turn.found();
                }
            });
            if number < 4 {
                yield_now().await;
            }
        }
        for _ in 0..2 {
            answered.notify_one();
            yield_now().await;
        }
        tasks.join_all().await;
        assert!(turns.0.lock().is_empty(), "nothing stays");
        std::mem::take(&mut *requested.lock())
    }

    #[tokio::test]
    async fn who_comes_while_the_directory_is_made_follows_in_the_order_of_arrival() {
        assert_eq!(order(true).await, [0, 1, 2, 3, 4, 5]);
        assert_eq!(order(false).await, [0, 1, 2, 3, 4, 5], "the first one failed");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_directory_that_is_there() {
        let turns = Turns::default();
        assert!(turns.begin("/k", true, PATIENCE).await.is_none());
        let first = turns.begin("/k", false, PATIENCE).await.expect("nobody looks yet");
        assert!(turns.begin("/j", false, PATIENCE).await.is_some(), "another key");
        drop(first);
        assert!(turns.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_that_is_not_driven_holds_nobody_up() {
        let turns = Turns::default();
        let first = turns.begin("/k", false, PATIENCE).await.expect("nobody looks yet");
        assert!(turns.begin("/k", false, PATIENCE).await.is_none(), "it goes on by itself");
        let began = Clock::Tokio.now();
        assert!(turns.begin("/k", true, PATIENCE).await.is_none());
        assert!(turns.begin("/k", false, PATIENCE).await.is_some());
        assert_eq!(
            Clock::Tokio.now().since(began),
            Duration::ZERO,
            "only a claim that waited already loses the time"
        );
        drop(first);
        assert!(turns.0.lock().is_empty());
    }

    #[tokio::test]
    async fn who_is_dropped_leaves_the_turn_to_the_next() {
        let turns = Turns::default();
        let first = turns.begin("/k", false, PATIENCE).await.expect("nobody looks yet");
        let mut waits = Box::pin(turns.begin("/k", false, PATIENCE));
        assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
        drop(waits);
        drop(first);
        assert!(turns.begin("/k", false, PATIENCE).await.is_some());
        assert!(turns.0.lock().is_empty());
    }

    #[tokio::test]
    async fn who_is_dropped_last_leaves_nothing() {
        let turns = Turns::default();
        let first = turns.begin("/k", false, PATIENCE).await.expect("nobody looks yet");
        let mut waits = Box::pin(turns.begin("/k", false, PATIENCE));
        assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
        drop(first);
        drop(waits);
        assert!(turns.0.lock().is_empty());
    }
}
