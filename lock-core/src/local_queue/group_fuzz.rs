//! Random work in the groups of a fair lock, without a store.

use std::time::Duration;

use fastrand::Rng;

use super::group_tests::{PATIENCE, looks, wait_in_group};
use super::groups::Groups;
use super::places::{Place, owners};
use super::tests::{TTL, key, local_queue};
use super::waiter::Waiter;
use super::{LocalQueue, Placed};
use crate::owner::{Owner, OwnerSource};

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
            let has_somebody = !group.is_empty() || matches!(group.place, Place::Held(_) | Place::Ended(_));
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
    fn poll(&mut self, at: usize, gives_way: bool) {
        let Random { waiter, queued, gave_way, asking } = &mut self.waiters[at];
        if !*asking {
            if std::mem::take(gave_way) && waiter.still_asks() {
                waiter.set_asking(true, self.local_queue.clock.now());
                *asking = true;
                return;
            }
            looks(self.local_queue, waiter, *queued);
            waiter.checks_in_by(self.local_queue.clock.now());
            // After a failure of the store, a head asks by itself.
            let asks = (waiter.take_ask() || waiter.is_head()) && queued.is_none();
            *gave_way = asks && gives_way;
            if asks && !gives_way {
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

    /// A holder releases to the store, and gets the answer sooner or later.
    fn released(&mut self, answered: bool) {
        let Some(owner) = self.held.pop() else { return };
        assert!(!self.local_queue.hand_off_in_group(&key(), owner, |_| None, || None));
        if answered {
            self.local_queue.freed(&key(), owner);
        } else {
            self.known.push(owner);
        }
    }

    async fn step(&mut self, random: &mut Rng) {
        let at = random.usize(..self.waiters.len().max(1));
        match random.u8(..12) {
            0 | 1 => self.join(TTL * random.u32(1..3)),
            _ if self.waiters.is_empty() => {}
            2..=4 => self.poll(at, random.bool()),
            5 | 6 => self.answered(at, random.u8(..6), random),
            7 => self.served(at, random.bool()),
            8 => drop(self.waiters.swap_remove(at)),
            9 => self.released(random.bool()),
            10 => {
                if let Some(owner) = random.choice(&self.known) {
                    self.local_queue.freed(&key(), *owner);
                }
            }
            _ => {
                tokio::time::advance(Duration::from_millis(random.u64(..1_500))).await;
                self.local_queue.reclaim(PATIENCE);
            }
        }
        self.local_queue.check_groups(&key());
    }

    /// Serves everybody who is left. Each is polled, each release is answered.
    async fn ends(&mut self, random: &mut Rng) {
        for _ in 0..400 {
            for at in (0..self.waiters.len()).rev() {
                self.poll(at, false);
                self.answered(at, 3, random);
                if self.waiters[at].waiter.is_head() {
                    self.served(at, true);
                    self.local_queue.check_groups(&key());
                }
            }
            self.known.drain(..).for_each(|owner| self.local_queue.freed(&key(), owner));
            while !self.held.is_empty() {
                self.released(true);
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
        let mut work = Work { local_queue: &local_queue, owners, waiters, known, held };
        for _ in 0..random.usize(..120) {
            work.step(&mut random).await;
        }
        work.ends(&mut random).await;
        assert!(work.waiters.is_empty(), "seed {seed}, round {round}: {} wait", work.waiters.len());
        assert!(local_queue.is_empty(), "seed {seed}, round {round}");
    }
}
