//! Sends one request at a time, and shares its answer among all callers that need it.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use crate::clock::{Clock, Moment};
use crate::sync::{Mutex, MutexGuard, Notify};

/// Runs one *flight* at a time. A flight is one run of a request. Every caller that waits for a flight receives its
/// result.
///
/// The caller that begins a flight drives it within its own future, so no task is spawned. If that caller is dropped
/// during the flight, the next caller begins a new flight.
#[derive(Debug)]
pub(crate) struct SingleFlight<T> {
    /// How long the result of a flight counts as recent, from the beginning of the flight.
    recent: Duration,
    /// The longest wait for another caller's flight. A flight takes longer only if its runtime is no longer driven.
    patience: Duration,
    /// This is a `std` mutex, which is never locked across an await. An async mutex would have to be locked during a
    /// whole flight. If the runtime of the caller is no longer driven, such a mutex would stay locked for ever and
    /// block all other callers in the process.
    flights: Mutex<Flights<T>>,
    landed: Notify,
}

#[derive(Debug)]
struct Flights<T> {
    /// The moment at which the current flight began.
    begun: Option<Moment>,
    /// The moment at which the last finished flight began, and its result.
    last: Option<(Moment, T)>,
}

/// The role of a caller.
enum Part<T> {
    /// A flight has begun after the call, and has already finished.
    Done(T),
    /// Another caller leads a flight. This caller waits for it, at most this long.
    Follow(Duration),
    /// This caller leads a flight that begins now.
    Lead(Moment),
}

impl<T: Clone> SingleFlight<T> {
    /// Creates the state. A result counts as recent for `recent`, from the beginning of its flight. A caller waits for
    /// another caller's flight for at most `patience`.
    pub(crate) fn new(recent: Duration, patience: Duration) -> Self {
        let flights = Mutex::new(Flights { begun: None, last: None });
        Self { recent, patience, flights, landed: Notify::new() }
    }

    /// Returns the result of a recent flight. If there is none, returns the result of a [fresh](Self::fresh) flight.
    pub(crate) async fn recent(&self, flight: impl Future<Output = T>) -> T {
        let now = Clock::Suspend.now();
        match &self.flights().last {
            Some((begun, result)) if now.since(*begun) < self.recent => return result.clone(),
            _ => {}
        }
        self.fresh(flight).await
    }

    /// Returns the result of a flight that began after this call. That flight may belong to another caller. Otherwise
    /// this function runs `flight`.
    pub(crate) async fn fresh(&self, flight: impl Future<Output = T>) -> T {
        let called = Clock::Suspend.now();
        let begun = loop {
            // `landed` is created before the state is read, so that the end of a flight in between is not missed.
            let landed = self.landed.notified();
            let left = match self.part(called) {
                Part::Done(result) => return result,
                Part::Lead(begun) => break begun,
                Part::Follow(left) => left,
            };
            // Either the flight has ended or the patience is over. In both cases the next check of the state decides
            // what this caller does.
            let _ = timeout(left, landed).await;
        };
        // `lead` is also dropped if this future is dropped, so a caller that gives up never blocks the next flight.
        let mut lead = Lead { flights: self, begun, result: None };
        let result = flight.await;
        lead.result = Some(result.clone());
        result
    }

    fn part(&self, called: Moment) -> Part<T> {
        let mut flights = self.flights();
        match &flights.last {
            // Only a flight that began after the call counts: an earlier answer may be older than the event to which
            // the caller reacts.
            Some((begun, result)) if begun.since(called) > Duration::ZERO => {
                return Part::Done(result.clone());
            }
            _ => {}
        }
        let now = Clock::Suspend.now();
        match flights.begun.map(|begun| self.patience.saturating_sub(now.since(begun))) {
            Some(left) if !left.is_zero() => Part::Follow(left),
            _ => {
                // The new flight also replaces a flight that takes too long. The caller of that flight may belong to a
                // runtime that is no longer driven.
                flights.begun = Some(now);
                Part::Lead(now)
            }
        }
    }
}

impl<T> SingleFlight<T> {
    fn flights(&self) -> MutexGuard<'_, Flights<T>> {
        self.flights.lock()
    }
}

/// The flight that a caller leads. Dropping this value publishes the result, if there is one, and lets the next flight
/// begin.
struct Lead<'a, T> {
    flights: &'a SingleFlight<T>,
    begun: Moment,
    result: Option<T>,
}

impl<T> Drop for Lead<'_, T> {
    fn drop(&mut self) {
        let mut flights = self.flights.flights();
        // Another flight may have begun, because this one took too long.
        if flights.begun == Some(self.begun) {
            flights.begun = None;
        }
        // A flight that was overtaken must not replace the result of a later flight.
        let newer = flights.last.as_ref().is_none_or(|(last, _)| self.begun.since(*last) > Duration::ZERO);
        if let Some(result) = self.result.take().filter(|_| newer) {
            flights.last = Some((self.begun, result));
        }
        drop(flights);
        // The waiting callers are also woken without a result, because one of them must lead the next flight.
        self.flights.landed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::task::yield_now;

    use super::*;

    const RECENT: Duration = Duration::from_millis(100);
    const PATIENCE: Duration = Duration::from_secs(2);

    fn single<T: Clone>() -> SingleFlight<T> {
        SingleFlight::new(RECENT, PATIENCE)
    }

    #[tokio::test]
    async fn callers_during_a_flight_share_the_next_one() {
        let (single, count) = (single(), AtomicU32::new(0));
        let flight = || async {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            yield_now().await;
            number
        };
        let (one, others) = tokio::join!(single.fresh(flight()), async {
            tokio::join!(single.fresh(flight()), single.fresh(flight()), single.fresh(flight()))
        });
        assert_eq!((one, others), (1, (2, 2, 2)));
        assert_eq!(count.load(Ordering::Relaxed), 2);
        assert_eq!(single.recent(flight()).await, 2, "the last flight is recent");
        assert_eq!(single.fresh(flight()).await, 3);
    }

    #[tokio::test]
    async fn a_flight_that_never_lands_is_waited_for_once() {
        let single = single();
        let mut frozen = pin!(single.fresh(std::future::pending()));
        assert!(timeout(Duration::ZERO, frozen.as_mut()).await.is_err());
        let start = Clock::Suspend.now();
        for _ in 0..5 {
            single.fresh(std::future::ready(())).await;
        }
        let taken = Clock::Suspend.now().since(start);
        assert!(taken >= PATIENCE / 2 && taken < 4 * PATIENCE, "{taken:?}");
    }

    #[tokio::test]
    async fn a_dropped_leader_lets_the_next_flight_begin() {
        let single = single();
        let dropped = timeout(Duration::from_millis(1), single.fresh(std::future::pending())).await;
        assert!(dropped.is_err());
        let start = Clock::Suspend.now();
        single.fresh(std::future::ready(())).await;
        assert!(Clock::Suspend.now().since(start) < PATIENCE);
    }
}
