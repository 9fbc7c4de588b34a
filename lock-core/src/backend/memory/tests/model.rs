//! Random histories of one key, judged by what the answers alone imply.

use std::time::Duration;

use proptest::prelude::*;

use super::Claims;
use crate::backend::memory::state::{Entry, TICKET, Verdict};
use crate::backend::{Claim, FencingToken, Mode, Queue, Released};
use crate::clock::Moment;

#[derive(Clone, Debug)]
enum Step {
    Acquire(usize),
    Renew(usize, u64),
    Release(usize, Option<u64>),
    Pass(u64),
}

/// What the answers so far say: grants and tickets, with the time at which they end.
#[derive(Default)]
struct Model {
    now: u64,
    grants: Vec<(usize, u64, bool)>,
    tickets: Vec<(usize, u64)>,
    fences: Vec<Option<FencingToken>>,
    last: u64,
}

fn together(modes: &[Mode]) -> bool {
    match modes {
        [] | [_] => true,
        [Mode::Permit { of }, ..] => modes.len() <= *of as usize,
        _ => modes.iter().all(|mode| *mode == Mode::Shared),
    }
}

fn one_kind(first: Mode, second: Mode) -> bool {
    let rw = |mode| matches!(mode, Mode::Exclusive | Mode::Shared);
    first == second || rw(first) && rw(second)
}

impl Model {
    fn pass(&mut self, time: u64) {
        self.now += time;
        self.grants.retain(|(_, end, _)| *end > self.now);
        self.tickets.retain(|(_, end)| *end > self.now);
    }

    fn grant(&mut self, who: usize) -> Option<&mut (usize, u64, bool)> {
        self.grants.iter_mut().find(|(owner, _, kept)| *owner == who && !kept)
    }

    /// The modes in use, those of older tickets included when they can be had together with it.
    fn ahead(&self, claims: &[Claim], who: usize) -> Vec<Mode> {
        let older = self.tickets.iter().take_while(|(owner, _)| *owner != who);
        let all = self.grants.iter().map(|(owner, ..)| owner).chain(older.map(|(owner, _)| owner));
        all.map(|owner| claims[*owner].mode).collect()
    }

    fn acquire(&mut self, claims: &[Claim], entry: &mut Entry, who: usize) {
        let claim = &claims[who];
        let (ttl, now, next) = (millis(claim.ttl), self.now, self.last + 1);
        let verdict = entry.acquire(claim, claim.queue == Queue::Fifo, at(now), || FencingToken::new(next));
        let mut all = self.ahead(claims, who);
        let conflict = all.iter().any(|mode| !one_kind(*mode, claim.mode));
        all.push(claim.mode);
        match verdict {
            Verdict::Granted(fence) => {
                if let Some((_, end, _)) = self.grant(who) {
                    *end = (*end).max(now + ttl);
                    assert_eq!(
                        self.fences[who],
                        Some(fence),
                        "an acquire that is repeated gives the same token"
                    );
                    return;
                }
                assert!(together(&all), "{claim:?} was granted beside or before {all:?}");
                assert_eq!(fence.get(), next, "a new token for a new grant");
                self.last = next;
                self.fences[who] = Some(fence);
                self.tickets.retain(|(owner, _)| *owner != who);
                self.grants.push((who, now + ttl, false));
            }
            Verdict::Held(held) => {
                assert!(self.grant(who).is_none(), "a holder was refused");
                assert!(!together(&all) && !conflict, "{claim:?} was refused beside {all:?}");
                let rest = self.grants.iter().map(|(_, end, _)| end - now);
                let rest = if claim.mode == Mode::Exclusive { rest.max() } else { rest.min() };
                assert_eq!(held.remaining.map(millis), rest);
                if claim.queue == Queue::Fifo {
                    self.take_ticket(who, now + ttl.min(millis(TICKET)));
                }
            }
            Verdict::Conflict(_) => {
                assert!(conflict, "{claim:?} does not conflict with {all:?}");
                self.tickets.retain(|(owner, _)| *owner != who);
            }
        }
    }

    fn take_ticket(&mut self, who: usize, end: u64) {
        match self.tickets.iter_mut().find(|(owner, _)| *owner == who) {
            Some(ticket) => ticket.1 = end,
            None => self.tickets.push((who, end)),
        }
    }

    fn renew(&mut self, claims: &[Claim], entry: &mut Entry, who: usize, ttl: u64) {
        let now = self.now;
        let renewed = entry.renew(claims[who].owner, Duration::from_millis(ttl), at(now));
        let grant = self.grant(who);
        assert_eq!(renewed, grant.is_some(), "a renewal extends what is there, and makes nothing");
        if let Some((_, end, _)) = grant {
            *end = (*end).max(now + ttl);
        }
    }

    fn release(&mut self, claims: &[Claim], entry: &mut Entry, who: usize, keep: Option<u64>) {
        let released = entry.release(&claims[who], keep.map(Duration::from_millis), at(self.now));
        self.tickets.retain(|(owner, _)| *owner != who);
        let now = self.now;
        let Some(place) = self.grants.iter().position(|(owner, ..)| *owner == who) else {
            assert_ne!(released, Released::Released);
            return;
        };
        assert_eq!(released, Released::Released);
        match keep {
            _ if self.grants[place].2 => {}
            Some(keep) => self.grants[place] = (who, now + keep, true),
            None => {
                self.grants.remove(place);
            }
        }
    }
}

fn at(millis: u64) -> Moment {
    Moment::from_parts((0, 0)).plus(Duration::from_millis(millis))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).expect("short")
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![
        4 => Just(Mode::Exclusive),
        4 => Just(Mode::Shared),
        3 => Just(Mode::Permit { of: 2 }),
        1 => Just(Mode::Permit { of: 3 }),
    ]
}

fn steps(owners: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..owners).prop_map(Step::Acquire),
        1 => (0..owners, 1..3000u64).prop_map(|(who, ttl)| Step::Renew(who, ttl)),
        3 => (0..owners, proptest::option::weighted(0.2, 1..3000u64)).prop_map(|(who, keep)| Step::Release(who, keep)),
        2 => (1..2500u64).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 1..60)
}

const OWNERS: usize = 6;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_random_history_agrees_with_the_model(
        shapes in proptest::collection::vec((modes(), any::<bool>(), 1..4000u64), OWNERS),
        steps in steps(OWNERS),
    ) {
        let claims = Claims::new();
        let claims: Vec<Claim> = shapes
            .into_iter()
            .map(|(mode, fifo, ttl)| {
                let queue = if fifo { Queue::Fifo } else { Queue::Barging };
                Claim { ttl: Duration::from_millis(ttl), ..claims.claim("k", mode, queue) }
            })
            .collect();
        let mut model = Model { fences: vec![None; OWNERS], ..Model::default() };
        let mut entry = Entry::default();
        for step in steps {
            match step {
                Step::Acquire(who) => model.acquire(&claims, &mut entry, who),
                Step::Renew(who, ttl) => model.renew(&claims, &mut entry, who, ttl),
                Step::Release(who, keep) => model.release(&claims, &mut entry, who, keep),
                Step::Pass(time) => model.pass(time),
            }
            let idle = model.grants.is_empty() && model.tickets.is_empty();
            prop_assert_eq!(entry.is_idle(at(model.now)), idle);
        }
    }
}
