//! Tests random histories of one key. The model uses only the answers of the store, and checks that they are
//! consistent.

use std::time::Duration;

use proptest::prelude::*;

use super::Claims;
use crate::backend::memory::entry::{Entry, Verdict};
use crate::backend::{Ask, Claim, FencingToken, Mode, Queue, Released, WAITER_LEASE};
use crate::clock::Moment;

#[derive(Clone, Debug)]
enum Step {
    Try(usize),
    Enqueue(usize, usize),
    Renew(usize, u64),
    Downgrade(usize),
    Release(usize, Option<u64>),
    Pass(u64),
}

/// The state according to the answers: the grants and the tickets, with the time at which each of them ends.
#[derive(Default)]
struct Model {
    now: u64,
    grants: Vec<Grant>,
    tickets: Vec<(usize, u64)>,
    fences: Vec<Option<FencingToken>>,
    last: u64,
}

struct Grant {
    who: usize,
    end: u64,
    mode: Mode,
    kept: bool,
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
        self.grants.retain(|grant| grant.end > self.now);
        self.tickets.retain(|(_, end)| *end > self.now);
    }

    fn grant(&mut self, who: usize) -> Option<&mut Grant> {
        self.grants.iter_mut().find(|grant| grant.who == who && !grant.kept)
    }

    /// Returns the modes of the holders, and of the tickets before the ticket of `who`.
    fn ahead(&self, claims: &[Claim], who: usize) -> Vec<Mode> {
        let older = self.tickets.iter().take_while(|(owner, _)| *owner != who);
        let older = older.map(|(owner, _)| claims[*owner].mode);
        self.grants.iter().map(|grant| grant.mode).chain(older).collect()
    }

    /// Returns whether the holder's manager itself hands the key off to the claim.
    fn is_handed_on_locally(&self, claims: &[Claim], claim: &Claim) -> bool {
        let holder = self.grants.first().filter(|grant| grant.mode == Mode::Exclusive && !grant.kept);
        claim.queue == Queue::Barging
            && holder.is_some_and(|grant| claims[grant.who].owner.process() == claim.owner.process())
    }

    fn acquire(&mut self, claims: &[Claim], entry: &mut Entry, who: usize, ask: Ask) {
        let claim = &claims[who];
        let (ttl, now, next) = (millis(claim.ttl), self.now, self.last + 1);
        let verdict = entry.acquire(claim, ask, at(now), || FencingToken::new(next));
        let others = self.tickets.iter().filter(|(owner, _)| *owner != who).count();
        let mut all = self.ahead(claims, who);
        let conflict = all.iter().any(|mode| !one_kind(*mode, claim.mode));
        all.push(claim.mode);
        if let Some(grant) = self.grant(who) {
            match verdict {
                Verdict::Granted { fence, .. } => {
                    assert!(grant.mode == claim.mode, "an upgrade");
                    grant.end = grant.end.max(now + ttl);
                    let first = self.fences[who];
                    assert_eq!(first, Some(fence), "an acquire that is repeated gives the same token");
                }
                Verdict::Held(held) => {
                    assert!(
                        grant.mode == Mode::Shared && claim.mode == Mode::Exclusive,
                        "a holder was refused"
                    );
                    assert_eq!((held.queued_at, held.position), (None, None), "it would wait for itself");
                }
                Verdict::Conflict(..) => panic!("a holder has no other kind"),
            }
            return;
        }
        match verdict {
            Verdict::Granted { fence, waiters } => {
                assert!(together(&all), "{claim:?} was granted beside or before {all:?}");
                assert_eq!(fence.get(), next, "a new token for a new grant");
                assert_eq!(waiters, others);
                self.last = next;
                self.fences[who] = Some(fence);
                self.tickets.retain(|(owner, _)| *owner != who);
                self.grants.push(Grant { who, end: now + ttl, mode: claim.mode, kept: false });
            }
            Verdict::Held(held) => {
                assert!(!together(&all) && !conflict, "{claim:?} was refused beside {all:?}");
                let rest = self.grants.iter().map(|grant| grant.end - now);
                let rest = if claim.mode == Mode::Exclusive { rest.max() } else { rest.min() };
                assert_eq!(held.remaining.map(millis), rest);
                assert_eq!(held.waiters, Some(others));
                let had = self.tickets.iter().any(|(owner, _)| *owner == who);
                let takes = match ask {
                    Ask::Probe | Ask::Try => false,
                    Ask::Enqueue { room } => {
                        room.is_none_or(|room| others < room) && !self.is_handed_on_locally(claims, claim)
                    }
                };
                if had || takes {
                    self.take_ticket(who, now + millis(claim.ttl.min(WAITER_LEASE)));
                }
                let position = self.tickets.iter().position(|(owner, _)| *owner == who);
                assert_eq!((held.position, held.queued_at), (position, position.map(|_| at(now))));
            }
            Verdict::Conflict(..) => {
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
        let others = self.tickets.iter().filter(|(owner, _)| *owner != who).count();
        let grant = self.grant(who);
        assert_eq!(
            renewed,
            grant.as_ref().map(|_| others),
            "a renewal extends what is there, and makes nothing"
        );
        if let Some(grant) = grant {
            grant.end = grant.end.max(now + ttl);
        }
    }

    fn downgrade(&mut self, claims: &[Claim], entry: &mut Entry, who: usize) {
        let (now, claim) = (self.now, &claims[who]);
        let downgraded = entry.downgrade(claim, at(now));
        let Some(grant) = self.grant(who) else {
            assert_eq!(downgraded, Ok(None));
            return;
        };
        if let Mode::Permit { .. } = grant.mode {
            downgraded.expect_err("another kind");
            return;
        }
        assert!(matches!(downgraded, Ok(Some(_))), "it is the owner's: {downgraded:?}");
        grant.mode = Mode::Shared;
        grant.end = grant.end.max(now + millis(claim.ttl));
    }

    fn release(&mut self, claims: &[Claim], entry: &mut Entry, who: usize, keep: Option<u64>) {
        let released = entry.release(&claims[who], keep.map(Duration::from_millis), at(self.now));
        self.tickets.retain(|(owner, _)| *owner != who);
        let now = self.now;
        let Some(place) = self.grants.iter().position(|grant| grant.who == who) else {
            assert_ne!(released, Released::Released);
            return;
        };
        assert_eq!(released, Released::Released);
        let grant = &mut self.grants[place];
        match keep {
            _ if grant.kept => {}
            Some(keep) => (grant.end, grant.kept) = (now + keep, true),
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
        2 => (0..owners).prop_map(Step::Try),
        6 => (0..owners, 0..8usize).prop_map(|(who, room)| Step::Enqueue(who, room)),
        1 => (0..owners).prop_map(Step::Downgrade),
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
        let managers = [Claims::new(), Claims::new()];
        let claims: Vec<Claim> = managers
            .iter()
            .cycle()
            .zip(shapes)
            .map(|(claims, (mode, fifo, ttl))| {
                let queue = if fifo { Queue::Fifo } else { Queue::Barging };
                Claim { ttl: Duration::from_millis(ttl), ..claims.claim("k", mode, queue) }
            })
            .collect();
        let mut model = Model { fences: vec![None; OWNERS], ..Model::default() };
        let mut entry = Entry::default();
        for step in steps {
            match step {
                Step::Try(who) => model.acquire(&claims, &mut entry, who, Ask::Try),
                Step::Enqueue(who, room) => model.acquire(&claims, &mut entry, who, Ask::Enqueue { room: Some(room) }),
                Step::Downgrade(who) => model.downgrade(&claims, &mut entry, who),
                Step::Renew(who, ttl) => model.renew(&claims, &mut entry, who, ttl),
                Step::Release(who, keep) => model.release(&claims, &mut entry, who, keep),
                Step::Pass(time) => model.pass(time),
            }
            let idle = model.grants.is_empty() && model.tickets.is_empty();
            prop_assert_eq!(entry.is_idle(at(model.now)), idle);
        }
    }
}
