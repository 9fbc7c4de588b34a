//! One key: who waits for it in this process, and whose turn it is.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::seat::Seat;
use super::turn::Turn;
use crate::acquire::InFlight;
use crate::clock::Moment;

/// How many turns a process takes on one grant while others wait elsewhere, and for how long at most.
const TURNS: u32 = 64;
const SLICE: Duration = Duration::from_millis(10);

/// A turn that was offered and not taken for so long goes to the next: its waiter is not polled.
const UNTAKEN: Duration = Duration::from_millis(250);

/// A head that was not seen at work for so long goes to the end of the line: it is not polled. One that is looks round
/// every second.
const UNSEEN: Duration = Duration::from_secs(3);

/// What is left of a process's turns on one grant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slice {
    /// Since when others are known to wait elsewhere, and how many turns were taken since.
    contended: Option<(Moment, u32)>,
}

impl Slice {
    /// Others wait elsewhere. The slice begins with that news, not with the grant.
    pub(super) fn contend(&mut self, now: Moment) {
        self.contended.get_or_insert((now, 0));
    }

    #[cfg(test)]
    pub(super) fn is_contended(self) -> bool {
        self.contended.is_some()
    }

    pub(super) fn is_over(self, now: Moment) -> bool {
        self.contended.is_some_and(|(began, turns)| turns >= TURNS || now.since(began) >= SLICE)
    }

    pub(super) fn turn(&mut self) {
        if let Some((_, turns)) = &mut self.contended {
            *turns += 1;
        }
    }
}

/// A place that nobody has any more, and the head that has news.
type Left = (Option<InFlight>, Option<Arc<Seat>>);

/// The waiters of one key. There is a line while somebody waits, and while a holder that came through it holds: so
/// that newcomers join without asking a store that would say no.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// In order of arrival; the first is the head.
    seats: VecDeque<Arc<Seat>>,
    /// A grant that came through this line is in use.
    held: bool,
    slice: Slice,
    /// To whom the last turn was offered, and when. Not owned: what is dropped with a seat must not be dropped under the
    /// lock of the line.
    offered: Option<(Weak<Seat>, Moment)>,
}

impl Line {
    pub(super) fn is_idle(&self) -> bool {
        self.seats.is_empty() && !self.held
    }

    pub(super) fn waiting(&self) -> usize {
        self.seats.len()
    }

    pub(super) fn is_head(&self, seat: &Arc<Seat>) -> bool {
        self.seats.front().is_some_and(|head| Arc::ptr_eq(head, seat))
    }

    /// Takes a seat at the end. The first in line is to ask the store, unless the key is held through the line: then it
    /// is told when that changes.
    pub(super) fn join(&mut self, ttl: Duration, now: Moment) -> Arc<Seat> {
        let seat = Arc::new(Seat::new(ttl, now));
        self.seats.push_back(Arc::clone(&seat));
        if self.seats.len() == 1 && !self.held {
            seat.news().ask = true;
        }
        seat
    }

    /// Gives up a seat, and what comes with it to the one behind. Returns what has to be dropped, and who has to be woken,
    /// outside of the lock: both may run code of the application.
    pub(super) fn leave(&mut self, seat: &Arc<Seat>, place: Option<InFlight>) -> Left {
        let was_head = self.is_head(seat);
        let place = place.or_else(|| seat.news().place.take());
        self.seats.retain(|other| !Arc::ptr_eq(other, seat));
        seat.news().gone = true;
        if !was_head {
            return (place, None);
        }
        let Some(next) = self.seats.front() else { return (place, None) };
        let mut news = next.news();
        let unused = match place {
            Some(place) => news.place.replace(place),
            None => None,
        };
        // The one who leaves may have taken the news with it.
        news.ask |= !self.held;
        drop(news);
        (unused, Some(Arc::clone(next)))
    }

    /// The head has a grant from the store. Others may wait there: `contended`.
    pub(super) fn granted(&mut self, seat: &Arc<Seat>, contended: bool, now: Moment) -> Option<InFlight> {
        self.seats.retain(|other| !Arc::ptr_eq(other, seat));
        self.begin(contended, now);
        seat.news().place.take()
    }

    fn begin(&mut self, contended: bool, now: Moment) {
        self.held = true;
        // The word that others wait may be older than the look at the grant.
        let contended = contended || self.slice.contended.is_some();
        self.slice = Slice::default();
        self.offered = None;
        if contended {
            self.slice.contend(now);
        }
    }

    /// Gives the grant to the next in line, if there is one and the slice is not over.
    pub(super) fn hand_over(
        &mut self,
        turn: impl FnOnce(Duration) -> Option<Turn>,
        now: Moment,
    ) -> Option<Arc<Seat>> {
        self.offered = None;
        self.held = false;
        let asked = self.seats.front()?.ttl();
        if self.slice.is_over(now) {
            return None;
        }
        let turn = turn(asked)?;
        let next = self.seats.pop_front()?;
        self.slice.turn();
        self.held = true;
        next.news().turn = Some(turn);
        self.offered = Some((Arc::downgrade(&next), now));
        Some(next)
    }

    /// The key was given back to the store, or lost: the head is to ask.
    pub(super) fn freed(&mut self) -> Option<Arc<Seat>> {
        self.held = false;
        self.slice = Slice::default();
        let head = self.seats.front()?;
        head.news().ask = true;
        Some(Arc::clone(head))
    }

    pub(super) fn contend(&mut self, now: Moment) {
        self.slice.contend(now);
    }

    #[cfg(test)]
    pub(super) fn is_contended(&self) -> bool {
        self.slice.is_contended()
    }

    /// Passes over those whose future is held and not polled: a turn that was not taken for long, a head that was not
    /// seen for longer. They line up again.
    pub(super) fn nudge(&mut self, now: Moment) -> Option<Arc<Seat>> {
        if self.held { self.nudge_turn(now) } else { self.nudge_head(now) }
    }

    fn nudge_head(&mut self, now: Moment) -> Option<Arc<Seat>> {
        let unseen = |seat: &Arc<Seat>| seat.news().seen.is_some_and(|seen| now.since(seen) >= UNSEEN);
        if self.seats.len() < 2 || !self.seats.front().is_some_and(unseen) {
            return None;
        }
        self.seats.rotate_left(1);
        let head = self.seats.front()?;
        head.news().ask = true;
        Some(Arc::clone(head))
    }

    fn nudge_turn(&mut self, now: Moment) -> Option<Arc<Seat>> {
        let (seat, _) = self.offered.as_ref().filter(|(_, since)| now.since(*since) >= UNTAKEN)?;
        if self.seats.is_empty() {
            return None;
        }
        let seat = seat.upgrade();
        self.offered = None;
        let seat = seat?;
        let turn = {
            let mut news = seat.news();
            // Its waiter is leaving, and passes the turn on itself.
            if news.gone {
                return None;
            }
            news.turn.take()?
        };
        self.seats.push_back(seat);
        let next = self.seats.pop_front()?;
        next.news().turn = Some(turn);
        self.offered = Some((Arc::downgrade(&next), now));
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_slice_ends_by_turns_or_by_time_once_others_wait() {
        let start = Clock::Suspend.now();
        let at = |ms| start.plus(Duration::from_millis(ms));
        let mut slice = Slice::default();
        for _ in 0..10 * TURNS {
            slice.turn();
        }
        assert!(!slice.is_over(at(60_000)), "nobody else waits");
        slice.contend(at(60_000));
        assert!(!slice.is_over(at(60_009)) && slice.is_over(at(60_010)), "it begins with the news");
        slice.contend(at(60_009));
        assert!(slice.is_over(at(60_010)), "the first news counts");

        let mut slice = Slice::default();
        slice.contend(start);
        for _ in 1..TURNS {
            slice.turn();
        }
        assert!(!slice.is_over(start));
        slice.turn();
        assert!(slice.is_over(start));
    }
}
