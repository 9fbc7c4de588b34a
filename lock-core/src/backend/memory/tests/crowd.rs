//! Tests thousands of waiters for one key: the cost of a hand-off, and the order of the lists.

use std::sync::Arc;
use std::time::Duration;

use crate::sync::Notify;
use proptest::prelude::*;

use super::Claims;
use crate::backend::memory::arrivals::{Arrivals, Member};
use crate::backend::memory::entry::{Entry, Verdict};
use crate::backend::memory::ticket::Check;
use crate::backend::{Ask, Claim, FencingToken, Mode, Queue};
use crate::clock::Moment;

const MANY: usize = 8_000;
const FEW: usize = 500;

fn at(millis: u64) -> Moment {
    Moment::from_parts((0, 0)).plus(Duration::from_millis(millis))
}

/// A key with its holder and its waiters.
struct Crowd {
    entry: Entry,
    claims: Vec<Claim>,
    /// The number of wake-ups so far.
    rung: usize,
}

impl Crowd {
    fn of(waiters: usize, mode: Mode) -> Self {
        let claims = Claims::new();
        let mut crowd = Self { entry: Entry::default(), claims: Vec::new(), rung: 0 };
        for who in 0..=waiters {
            crowd.claims.push(claims.claim("k", if who == 0 { Mode::Exclusive } else { mode }, Queue::Fifo));
            assert_eq!(crowd.acquire(who), who == 0);
        }
        for who in 1..=waiters {
            crowd.entry.watch(&crowd.claims[who], who as u64, Arc::new(Notify::new()), at(0));
            assert!(matches!(crowd.check(who), Check::Wait(_)));
        }
        crowd.entry.take_events();
        crowd
    }

    fn acquire(&mut self, who: usize) -> bool {
        let ask = Ask::Enqueue { room: None };
        matches!(
            self.entry.acquire(&self.claims[who], ask, at(0), || FencingToken::new(1)),
            Verdict::Granted { .. }
        )
    }

    fn check(&mut self, who: usize) -> Check {
        self.entry.check(&self.claims[who], who as u64, at(0))
    }

    /// Releases the key, and lets the next waiter see its turn and acquire the key.
    fn hand_off(&mut self, from: usize) {
        self.entry.release(&self.claims[from], None, at(0));
        let next = from + 1;
        assert_eq!(self.check(next), Check::Ready);
        self.entry.go(&self.claims[next], next as u64, at(0));
        assert!(self.acquire(next));
        self.rung += self.entry.take_events().len();
    }
}

/// Returns the CPU time of this thread, which does not include other work of the machine.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the CPU time of 400 hand-offs: the shortest time of five rounds.
fn hand_offs(waiters: usize) -> Duration {
    let took = |_| {
        let mut crowd = Crowd::of(waiters, Mode::Exclusive);
        let start = cpu();
        (0..400).for_each(|from| crowd.hand_off(from));
        let took = cpu() - start;
        // Each hand-off wakes two waiters: the next holder, and the first remaining waiter, which must sleep until the
        // end of the new lease.
        assert!(crowd.rung <= 2 * 400, "{} bells were rung", crowd.rung);
        took
    };
    (0..5).map(took).min().expect("five rounds")
}

#[test]
fn a_hand_off_among_thousands_costs_as_much_as_one_among_hundreds() {
    let (few, many) = (hand_offs(FEW), hand_offs(MANY));
    // If each hand-off visited every waiter, a hand-off among `MANY` would take 16 times as long.
    assert!(many < 5 * few, "400 hand-offs: {few:?} among {FEW}, {many:?} among {MANY}");
}

#[test]
fn thousands_of_readers_come_and_go_at_a_cost_of_their_own() {
    let took = |readers: usize| {
        let round = |_| {
            let mut crowd = Crowd::of(readers, Mode::Shared);
            let start = cpu();
            crowd.entry.release(&crowd.claims[0], None, at(0));
            // The readers run in a random order, as in an executor.
            let mut order: Vec<_> = (1..=readers).collect();
            fastrand::Rng::with_seed(7).shuffle(&mut order);
            for who in &order {
                assert_eq!(crowd.check(*who), Check::Ready);
                crowd.entry.go(&crowd.claims[*who], *who as u64, at(0));
            }
            assert!(order.iter().all(|who| crowd.acquire(*who)));
            assert!(
                order
                    .iter()
                    .all(|who| crowd.entry.renew(crowd.claims[*who].owner, super::TTL, at(1)).is_some())
            );
            order.iter().rev().for_each(|who| {
                crowd.entry.release(&crowd.claims[*who], None, at(1));
            });
            let took = cpu() - start;
            assert!(crowd.entry.is_idle(at(1)));
            took
        };
        (0..5).map(round).min().expect("five rounds") / u32::try_from(readers).expect("few")
    };
    let (few, many) = (took(FEW), took(MANY));
    assert!(many < 5 * few, "a reader: {few:?} among {FEW}, {many:?} among {MANY}");
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8),
    Remove(u8),
    Rename(u8, u8),
    Change(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any::<u8>().prop_map(Step::Push),
        2 => any::<u8>().prop_map(Step::Remove),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => any::<u8>().prop_map(Step::Change),
    ];
    proptest::collection::vec(step, 1..200)
}

/// Some members have no deadline, and some have the same.
impl Member for usize {
    fn end(&self) -> Option<Moment> {
        (!self.is_multiple_of(3)).then(|| at((*self % 7) as u64))
    }
}

proptest! {
    /// The model is a plain list that is searched from its beginning.
    #[test]
    fn a_roll_is_a_list_in_order_of_arrival(steps in steps()) {
        let (mut arrivals, mut list) = (Arrivals::default(), Vec::<(u8, usize)>::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(name) if list.iter().all(|(other, _)| *other != name) => {
                    arrivals.push(name, number);
                    list.push((name, number));
                }
                Step::Push(_) => {}
                Step::Remove(name) => {
                    let at = list.iter().position(|(other, _)| *other == name);
                    prop_assert_eq!(arrivals.remove(&name), at.map(|at| (at, list.remove(at).1)));
                }
                Step::Rename(from, to) => {
                    if list.iter().all(|(other, _)| *other != to) {
                        arrivals.rename(&from, to);
                        list.iter_mut().filter(|(name, _)| *name == from).for_each(|(name, _)| *name = to);
                    }
                }
                Step::Change(name) => {
                    let changed = arrivals.number(&name).and_then(|it| arrivals.change(it, |it| *it = number));
                    let listed = list.iter_mut().find(|(other, _)| *other == name);
                    prop_assert_eq!(changed, listed.map(|(_, member)| *member = number));
                }
            }
            prop_assert_eq!(arrivals.len(), list.len());
            let ends = || list.iter().filter_map(|(_, member)| member.end());
            let sooner = |end: &Moment| end.nanos_left(at(0));
            prop_assert_eq!(arrivals.soonest(), ends().min_by_key(sooner));
            let endless = list.iter().position(|(_, member)| member.end().is_none());
            prop_assert_eq!(arrivals.first_endless().and_then(|number| arrivals.position(number)), endless);
            if endless.is_none() {
                prop_assert_eq!(arrivals.latest(), ends().max_by_key(sooner));
            }
            let is_past = |end: Moment| end.is_past(at(3));
            prop_assert_eq!(arrivals.expired(at(3)).is_some(), ends().any(is_past));
            prop_assert!(arrivals.expired(at(3)).is_none_or(|member| member.end().is_some_and(is_past)));
            for (at, (name, member)) in list.iter().enumerate() {
                let number = arrivals.number(name).expect("it is in the list");
                prop_assert_eq!(arrivals.position(number), Some(at));
                prop_assert_eq!(arrivals.get(at), Some(member));
            }
        }
    }
}
