//! Random work in the groups of a fair lock, without a store.

use std::time::Duration;

use fastrand::Rng;

use super::group_tests::{PATIENCE, wait_in_group};
use super::groups::Groups;
use super::places::{Place, owners};
use super::tests::{TTL, key, local_queue};
use super::waiter::Waiter;
use super::{LocalQueue, Placed};
use crate::guard::LockGuard;
use crate::manager::LockManager;
use crate::owner::{Owner, OwnerSource};

/// Longer than any random work.
const LEASE: Duration = Duration::from_secs(24 * 3_600);

impl Groups {
    /// Checks what is true between two changes.
    pub(super) fn check(&self) {
        let of = |place: fn(&Place) -> bool| self.groups.values().filter(|group| place(&group.place)).count();
        assert!(of(|place| *place == Place::Asking) <= 1, "one asks at a time: {self:?}");
        assert_eq!(self.places.asking().is_some(), of(|place| *place == Place::Asking) == 1, "{self:?}");
        assert_eq!(self.places.next(), None, "somebody asks where somebody may: {self:?}");
        assert_eq!(
            self.places.is_any_queued(),
            of(|place| matches!(place, Place::Queued(_))) > 0,
            "{self:?}"
        );
        let mut waiting = 0;
        for (number, group) in &self.groups {
            // Those who have given way wait for the end of a group that nobody is left in.
            let has_somebody = match group.place {
                Place::Held(_) => true,
                Place::Ended(_) => !group.is_empty() || self.given.contains(number),
                _ => !group.is_empty(),
            };
            assert!(has_somebody, "nobody is in {number}: {self:?}");
            for owner in owners(group.place) {
                assert_eq!(self.places.of(owner), Some(*number), "{self:?}");
            }
            for node in group.members() {
                waiting += 1;
                assert_eq!(node.state().group, Some(*number), "{self:?}");
            }
        }
        assert_eq!(waiting, self.waiting, "{self:?}");
        assert!(!self.gave_way || self.places.asking().is_some(), "{self:?}");
    }
}

/// A waiter of the random work, with the entry that it has in the store's queue.
struct Random<'a> {
    waiter: Waiter<'a>,
    queued: Option<Owner>,
    /// It was to ask, and has let others run first.
    gave_way: bool,
    /// Its request is under way.
    asking: bool,
}

/// Random work of the waiters of one lock, without a store.
struct Work<'a> {
    local_queue: &'a LocalQueue,
    owners: OwnerSource,
    waiters: Vec<Random<'a>>,
    /// Who was queued or granted at some time.
    known: Vec<Owner>,
    held: Vec<Owner>,
    /// The grant that was handed on last, and not taken.
    on_its_way: Option<Owner>,
    /// What is handed on.
    guard: LockGuard,
}

impl<'a> Work<'a> {
    fn mint(&mut self) -> Owner {
        self.known.push(self.owners.mint_grouped());
        self.known[self.known.len() - 1]
    }

    fn join(&mut self, ttl: Duration) {
        let waiter = wait_in_group(self.local_queue, ttl);
        self.waiters.push(Random { waiter, queued: None, gave_way: false, asking: false });
    }

    /// Polls a waiter: it looks, and asks if it is to.
    fn poll(&mut self, at: usize) {
        let Random { waiter, queued, gave_way, asking } = &mut self.waiters[at];
        if !*asking {
            if std::mem::take(gave_way) && waiter.asks_or_steps_back() {
                waiter.set_asking(true, self.local_queue.clock.now());
                *asking = true;
                return;
            }
            if waiter.check_in(*queued).is_some() {
                self.held.extend(self.on_its_way.take());
                drop(self.waiters.swap_remove(at));
                return;
            }
            waiter.skip_stalled(self.local_queue.clock.now());
            waiter.checks_in_by(self.local_queue.clock.now());
            // After a failure of the store, a head asks by itself.
            let asks = (waiter.take_ask() || waiter.is_head()) && queued.is_none();
            *gave_way = asks && waiter.gives_way();
            if asks && !*gave_way {
                waiter.set_asking(true, self.local_queue.clock.now());
                *asking = true;
            }
        }
    }

    /// A request of this waiter is answered: as `answer` says, where 0 is a grant.
    fn answered(&mut self, at: usize, answer: u8, random: &mut Rng) {
        if !std::mem::take(&mut self.waiters[at].asking) {
            return;
        }
        let behind = random.choice(&self.known).copied();
        let owner = self.mint();
        self.waiters[at].waiter.set_asking(false, self.local_queue.clock.now());
        let waiter = &mut self.waiters[at];
        match (answer, behind) {
            (0, _) => self.granted(at, owner, random.bool()),
            (1, _) => drop(waiter.waiter.answered(Placed::Nowhere)),
            (2, Some(behind)) if waiter.waiter.answered(Placed::Behind(behind)) => {}
            _ => {
                waiter.queued = Some(owner);
                assert!(waiter.waiter.answered(Placed::Queued(owner)));
            }
        }
    }

    fn granted(&mut self, at: usize, owner: Owner, contended: bool) {
        self.waiters.swap_remove(at).waiter.granted(owner, contended);
        self.held.push(owner);
    }

    /// The store serves the queue entry of a waiter, if it has one.
    fn served(&mut self, at: usize, contended: bool) {
        if let Some(owner) = self.waiters[at].queued {
            self.granted(at, owner, contended);
        }
    }

    /// A holder releases. It hands the grant on, or gets the answer of the store sooner or later.
    fn released(&mut self, hands_on: bool, answered: bool) {
        let Some(owner) = self.held.pop() else { return };
        let (lease, hands_on) = (self.guard.lease(), hands_on && self.on_its_way.is_none());
        let handoff = |ttl, now| if hands_on { lease.as_handoff(ttl, now) } else { None };
        let stays = self.local_queue.hand_off_in_group(&key(), owner, || lease.now(), handoff, || None);
        if stays {
            self.on_its_way = Some(owner);
            self.known.push(owner);
        } else if answered {
            self.local_queue.freed(&key(), owner);
        } else {
            self.known.push(owner);
        }
    }

    /// Several wait in one group, which is granted the key.
    fn begins(&mut self, random: &mut Rng) {
        (0..random.usize(1..8)).for_each(|_| self.join(TTL));
        self.poll(0);
        self.answered(0, 0, random);
        for _ in 0..random.usize(..4) {
            self.released(true, false);
            self.join(TTL);
            self.poll(self.waiters.len() - 1);
        }
    }

    async fn step(&mut self, random: &mut Rng) {
        let at = random.usize(..self.waiters.len().max(1));
        match random.u8(..40) {
            0..=7 => self.join(TTL * random.choice([1, 1, 1, 1, 1, 2]).expect("one of them")),
            _ if self.waiters.is_empty() => {}
            8..=17 => self.poll(at),
            18..=22 => self.answered(at, random.u8(..6), random),
            23..=26 => self.served(at, random.bool()),
            27 => drop(self.waiters.swap_remove(at)),
            28..=36 => self.released(random.u8(..4) > 0, random.bool()),
            37 => {
                if let Some(owner) = random.choice(&self.known) {
                    self.on_its_way.take_if(|on_its_way| on_its_way == owner);
                    self.local_queue.freed(&key(), *owner);
                }
            }
            38 => tokio::time::advance(Duration::from_millis(random.u64(..200))).await,
            _ => {
                tokio::time::advance(Duration::from_millis(random.u64(250..1_500))).await;
                self.local_queue.reclaim(PATIENCE);
                // It was taken back, if nobody looked.
                self.on_its_way = None;
            }
        }
        self.local_queue.check_groups(&key());
    }

    /// Serves everybody who is left. Each is polled, each release is answered.
    async fn ends(&mut self, random: &mut Rng) {
        for _ in 0..400 {
            for at in (0..self.waiters.len()).rev() {
                self.poll(at);
                // Who had been handed the grant is gone.
                if at >= self.waiters.len() {
                    continue;
                }
                self.answered(at, 3, random);
                if self.waiters[at].waiter.is_head() {
                    self.served(at, true);
                    self.local_queue.check_groups(&key());
                }
            }
            self.known.drain(..).for_each(|owner| self.local_queue.freed(&key(), owner));
            while !self.held.is_empty() {
                self.released(false, true);
            }
            tokio::time::advance(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_the_groups_are_in_order_and_everybody_is_served() {
    let seed = fastrand::u64(..);
    let mut random = Rng::with_seed(seed);
    for round in 0..300 {
        let local_queue = local_queue();
        let owners = OwnerSource::new().expect("random bytes");
        let (waiters, known, held) = (Vec::new(), Vec::new(), Vec::new());
        let guard = LockManager::in_memory().fair("k").ttl(LEASE).acquire().await.expect("it is free");
        let mut work =
            Work { local_queue: &local_queue, owners, waiters, known, held, on_its_way: None, guard };
        work.begins(&mut random);
        for _ in 0..random.usize(..240) {
            work.step(&mut random).await;
        }
        work.ends(&mut random).await;
        assert!(work.waiters.is_empty(), "seed {seed}, round {round}: {} wait", work.waiters.len());
        assert!(local_queue.is_empty(), "seed {seed}, round {round}");
    }
}
