use std::time::Duration;

use super::tests::{TTL, key, local_queue, owner};
use super::waiter::Waiter;
use super::{LocalQueue, Placed};
use crate::backend::Held;
use crate::guard::LockGuard;
use crate::manager::LockManager;
use crate::owner::{Owner, OwnerSource};

pub(super) const PATIENCE: Duration = Duration::from_millis(250);

pub(super) fn wait_in_group(local_queue: &LocalQueue, ttl: Duration) -> Waiter<'_> {
    Waiter::join_group(local_queue, &key(), ttl)
}

/// Sends the request of a group, if it is to ask.
pub(super) fn asks(local_queue: &LocalQueue, waiter: &Waiter<'_>) -> bool {
    let asks = waiter.is_head() && waiter.take_ask();
    if asks {
        waiter.set_asking(true, local_queue.clock.now());
    }
    asks
}

/// Releases a grant, which this process may hand on. Returns whether it stays here.
fn hands_on(local_queue: &LocalQueue, guard: &LockGuard, owner: Owner) -> bool {
    let handoff = |ttl, now| guard.lease().as_handoff(ttl, now);
    local_queue.hand_off_in_group(&key(), owner, || local_queue.clock.now(), handoff, || None)
}

/// Releases a grant that this process may not hand on, as where the lease is nearly over. Returns whether the store has
/// it.
fn goes_to_the_store(local_queue: &LocalQueue, owner: Owner) -> bool {
    !local_queue.hand_off_in_group(&key(), owner, || local_queue.clock.now(), |_, _| None, || None)
}

/// Polls a waiter after `pause`, and lets it skip those before it that are not polled.
pub(super) fn looks(local_queue: &LocalQueue, waiter: &mut Waiter<'_>, queued: Option<Owner>) {
    assert!(waiter.check_in(queued).is_none());
    waiter.skip_stalled(local_queue.clock.now());
}

#[tokio::test(start_paused = true)]
async fn while_a_group_asks_those_who_come_gather_in_the_next_one() {
    let local_queue = local_queue();
    let join = || wait_in_group(&local_queue, TTL);
    let (mut first, second) = (join(), join());
    assert!(asks(&local_queue, &first) && !asks(&local_queue, &second), "one request for both");
    let (third, fourth) = (join(), join());
    assert!(!asks(&local_queue, &third) && !third.is_head(), "one request at a time");
    assert!(first.answered(Placed::Queued(owner(1))));
    assert!(asks(&local_queue, &third) && !asks(&local_queue, &fourth));
    // It stands directly behind the first group, and waits for its grant.
    assert!(third.answered(Placed::Behind(owner(1))) && !third.is_head());
    first.granted(owner(1), false);
    drop(first);
    assert!(!second.is_head(), "the grant comes to it");
    // The grant is lost: the rest of the group asks for another place, with one request.
    local_queue.freed(&key(), owner(1));
    assert!(asks(&local_queue, &second) && !asks(&local_queue, &third) && !asks(&local_queue, &fourth));
    assert_eq!(local_queue.waiters(&key()), 3);
    drop((second, third, fourth));
    assert!(local_queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_a_group_that_is_there_takes_others_in() {
    let local_queue = local_queue();
    let first = wait_in_group(&local_queue, TTL);
    assert!(asks(&local_queue, &first) && first.answered(Placed::Queued(owner(0))));
    let second = wait_in_group(&local_queue, TTL);
    assert!(asks(&local_queue, &second));
    assert!(!second.answered(Placed::Behind(owner(2))), "it has ended, or is not known");
    let other = wait_in_group(&local_queue, 2 * TTL);
    assert!(!asks(&local_queue, &other), "one request at a time");
    assert!(second.answered(Placed::Queued(owner(1))));
    assert!(asks(&local_queue, &other));
    assert!(!other.answered(Placed::Behind(owner(1))), "of another lease");
    assert!(other.answered(Placed::Nowhere));
    drop((first, second, other));
    assert!(local_queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_before_those_who_came_earlier() {
    let local_queue = local_queue();
    let join = || wait_in_group(&local_queue, TTL);
    let (first, second) = (join(), join());
    assert!(asks(&local_queue, &first));
    let third = join();
    drop(first);
    assert!(asks(&local_queue, &second) && !asks(&local_queue, &third), "its group asks again");
    assert!(second.answered(Placed::Nowhere) && !second.take_ask(), "the store failed: it asks by itself");
    assert!(!asks(&local_queue, &third));
    assert!(second.answered(Placed::Queued(owner(1))));
    assert!(asks(&local_queue, &third) && third.answered(Placed::Queued(owner(2))));
    let (mut second, fourth) = (second, join());
    assert!(asks(&local_queue, &fourth) && fourth.answered(Placed::Behind(owner(2))));
    let mut fifth = join();
    second.granted(owner(1), true);
    // The place of the first group is lost, while the last one asks.
    assert!(asks(&local_queue, &fifth));
    drop(third);
    assert!(!fourth.is_head() && !asks(&local_queue, &fourth), "one request at a time");
    looks(&local_queue, &mut fifth, None);
    let sixth = join();
    assert!(fifth.answered(Placed::Queued(owner(3))));
    assert!(asks(&local_queue, &fourth) && !asks(&local_queue, &sixth), "the earlier one first");
    drop((second, fourth, fifth, sixth));
    local_queue.freed(&key(), owner(1));
    assert!(local_queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_asks_behind_those_whose_grant_goes_back_to_the_store() {
    let local_queue = local_queue();
    let join = || wait_in_group(&local_queue, TTL);
    let (mut first, second) = (join(), join());
    assert!(asks(&local_queue, &first));
    first.granted(owner(1), false);
    // The lease is nearly over, for example.
    assert!(goes_to_the_store(&local_queue, owner(1)));
    let third = wait_in_group(&local_queue, 2 * TTL);
    assert!(!asks(&local_queue, &third) && !asks(&local_queue, &second), "the release is under way");
    local_queue.freed(&key(), owner(1));
    assert!(asks(&local_queue, &second) && !asks(&local_queue, &third), "the earlier one first");
    drop((first, second, third));
    assert!(local_queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_place_is_lost_with_a_head_that_is_not_polled_and_comes_back_with_it() {
    let local_queue = local_queue();
    let join = || wait_in_group(&local_queue, TTL);
    let (mut stuck, mut second) = (join(), join());
    assert!(asks(&local_queue, &stuck) && stuck.answered(Placed::Queued(owner(1))));
    stuck.checks_in_by(local_queue.clock.now());
    tokio::time::advance(Duration::from_secs(2)).await;
    looks(&local_queue, &mut second, None);
    assert!(asks(&local_queue, &second), "the entry is not kept alive");
    assert!(!second.answered(Placed::Behind(owner(1))), "the one behind whom nobody stands any more");
    // It is polled after all, with its place.
    looks(&local_queue, &mut stuck, Some(owner(1)));
    assert!(stuck.is_head());
    assert!(second.answered(Placed::Behind(owner(1))) && !second.is_head());
    drop((stuck, second));
    assert!(local_queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_ask_when_told_is_passed_over() {
    let local_queue = local_queue();
    let (mut first, second) = (wait_in_group(&local_queue, TTL), wait_in_group(&local_queue, 2 * TTL));
    let third = wait_in_group(&local_queue, TTL);
    assert!(asks(&local_queue, &first) && first.answered(Placed::Queued(owner(1))));
    // The second is told.
    first.granted(owner(1), false);
    tokio::time::advance(PATIENCE).await;
    local_queue.reclaim(PATIENCE);
    assert!(!second.is_head() && asks(&local_queue, &third));
    drop((first, second, third));
    local_queue.freed(&key(), owner(1));
    assert!(local_queue.is_empty());
}

/// The head finds its entry gone, and asks for another one in the same question. The release of the entry is answered
/// first.
#[tokio::test(start_paused = true)]
async fn nobody_joins_a_group_whose_head_asks_for_a_new_place() {
    for another_asks in [false, true] {
        let local_queue = local_queue();
        let join = || wait_in_group(&local_queue, TTL);
        let other = another_asks.then(join);
        assert!(other.as_ref().is_none_or(|other| asks(&local_queue, other)));
        assert!(other.as_ref().is_none_or(|other| other.answered(Placed::Queued(owner(2)))));
        let mut first = join();
        assert!(asks(&local_queue, &first) && first.answered(Placed::Queued(owner(0))));
        local_queue.freed(&key(), owner(2));
        assert!(other.as_ref().is_none_or(|other| asks(&local_queue, other)));
        first.set_asking(true, local_queue.clock.now());
        local_queue.freed(&key(), owner(0));
        let newcomer = join();
        assert!(!first.take_ask(), "its request is under way");
        assert!(first.answered(Placed::Queued(owner(1))) && first.is_head());
        first.set_asking(false, local_queue.clock.now());
        if let Some(other) = &other {
            assert!(other.answered(Placed::Queued(owner(3))));
        }
        assert!(asks(&local_queue, &newcomer), "it came after that request: a place of its own");
        first.granted(owner(1), true);
        local_queue.freed(&key(), owner(1));
        drop((first, other, newcomer));
        assert!(local_queue.is_empty());
    }
}

/// A future that releases, and is not polled, keeps nobody for longer than an answer takes.
#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_finishes_is_waited_for_as_long_as_an_answer() {
    for newcomer_looks in [false, true] {
        let local_queue = local_queue();
        let join = || wait_in_group(&local_queue, TTL);
        let (mut first, second) = (join(), join());
        assert!(asks(&local_queue, &first));
        first.granted(owner(1), false);
        assert!(goes_to_the_store(&local_queue, owner(1)));
        let newcomer = wait_in_group(&local_queue, 2 * TTL);
        let mut pair = [second, newcomer];
        let look = |pair: &mut [Waiter<'_>; 2]| {
            let now = local_queue.clock.now();
            pair.iter().for_each(|waiter| waiter.checks_in_by(now));
            looks(&local_queue, &mut pair[usize::from(newcomer_looks)], None);
        };
        tokio::time::advance(Duration::from_millis(1_900)).await;
        look(&mut pair);
        tokio::time::advance(Duration::from_millis(100)).await;
        let before = pair[0].is_head();
        look(&mut pair);
        let [second, newcomer] = pair;
        assert!(
            !before && asks(&local_queue, &second) && !asks(&local_queue, &newcomer),
            "the earlier first"
        );
        // The answer comes after all.
        local_queue.freed(&key(), owner(1));
        assert!(
            second.is_head() && second.answered(Placed::Queued(owner(2))) && asks(&local_queue, &newcomer)
        );
        drop((first, second, newcomer));
        assert!(local_queue.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn all_of_a_group_know_what_the_store_has_said_to_the_first() {
    let local_queue = local_queue();
    let join = || wait_in_group(&local_queue, TTL);
    let (mut first, second, third) = (join(), join(), join());
    let said = |waiter: &Waiter<'_>| waiter.last_heard().map(|held| (held.waiters, held.position));
    assert_eq!(said(&third), None);
    assert!(asks(&local_queue, &first) && first.answered(Placed::Queued(owner(1))));
    first.heard(Held { waiters: Some(7), position: Some(2), ..Held::default() });
    assert_eq!(said(&first), Some((Some(7), Some(2))));
    assert_eq!(said(&third), Some((Some(7), Some(4))));
    first.heard(Held { waiters: Some(0), ..Held::default() });
    first.granted(owner(1), false);
    assert_eq!(said(&second), Some((Some(0), None)), "the first of them holds");
    drop((first, second, third));
    local_queue.freed(&key(), owner(1));
    assert!(local_queue.is_empty());
}

/// Nobody renews a grant that is kept. With a short lease it ends before the answer comes.
#[tokio::test(start_paused = true)]
async fn a_grant_that_runs_out_while_it_is_kept_costs_nobody_the_turn() {
    for reclaimed in [false, true] {
        let (local_queue, owners) = (local_queue(), OwnerSource::new().expect("random bytes"));
        let request = LockManager::in_memory().fair("k").ttl(Duration::from_millis(300)).renew(false);
        let guard = request.acquire().await.expect("it is free");
        let owner = owners.mint_grouped();
        let join = || wait_in_group(&local_queue, TTL);
        let mut first = join();
        assert!(asks(&local_queue, &first));
        first.granted(owner, false);
        let (mut second, third) = (join(), join());
        assert!(asks(&local_queue, &second));
        let kept = hands_on(&local_queue, &guard, owner);
        assert!(kept, "for the answer that is under way");
        tokio::time::advance(Duration::from_millis(350)).await;
        if reclaimed {
            local_queue.reclaim(PATIENCE);
        }
        assert_eq!(second.answered(Placed::Behind(owner)), !reclaimed, "it has ended, or ends now");
        assert!(second.check_in(None).is_none(), "its lease is over");
        local_queue.freed(&key(), owner);
        assert!(second.is_head() && !asks(&local_queue, &third), "in their order");
        drop((first, second, third));
        assert!(local_queue.is_empty());
    }
}

/// A grant that others wait for elsewhere is handed on. Who comes again meanwhile asks behind its release, together with
/// those who have it next.
#[tokio::test(start_paused = true)]
async fn who_gives_way_asks_with_those_who_come_again() {
    for (contended, is_quick) in [(true, true), (true, false), (false, true)] {
        let (local_queue, owners) = (local_queue(), OwnerSource::new().expect("random bytes"));
        let guard = LockManager::in_memory().fair("k").acquire().await.expect("it is free");
        let owner = owners.mint_grouped();
        let join = || wait_in_group(&local_queue, TTL);
        let (mut first, mut second) = (join(), join());
        assert!(asks(&local_queue, &first));
        first.granted(owner, contended);
        assert!(hands_on(&local_queue, &guard, owner));
        let again = join();
        assert!(again.take_ask());
        assert_eq!(again.gives_way(), contended, "nobody else waits, or the second has not taken it");
        let taken = second.check_in(None).expect("the grant of the first");
        drop(second);
        if is_quick {
            assert!(goes_to_the_store(&local_queue, owner));
        }
        assert_eq!(again.asks_or_steps_back(), !(contended && is_quick));
        let asks_first = again.is_head();
        assert_eq!(asks_first, !(contended && is_quick), "it waits for the answer");
        if asks_first {
            again.set_asking(true, local_queue.clock.now());
        }
        local_queue.freed(&key(), owner);
        let second_again = join();
        assert_eq!(asks(&local_queue, &again), !asks_first, "for both");
        assert!(!asks(&local_queue, &second_again) && again.answered(Placed::Queued(owners.mint_grouped())));
        assert_eq!(asks(&local_queue, &second_again), asks_first, "it came after the request");
        drop((first, again, second_again, taken));
        assert!(local_queue.is_empty());
    }
}

/// Has a grant that others wait for handed on and released, while a third waiter gives way. Returns that waiter.
fn gives_way_to_the_last<'a>(local_queue: &'a LocalQueue, guard: &LockGuard, owner: Owner) -> Waiter<'a> {
    let (mut first, mut second) = (wait_in_group(local_queue, TTL), wait_in_group(local_queue, TTL));
    assert!(asks(local_queue, &first));
    first.granted(owner, true);
    assert!(hands_on(local_queue, guard, owner));
    let again = wait_in_group(local_queue, TTL);
    // As where it is told to ask while it looks.
    assert!(again.gives_way());
    drop(second.check_in(None).expect("the grant of the first"));
    drop(second);
    local_queue.reclaim(PATIENCE);
    assert!(!local_queue.needs_reclaim(), "it was taken");
    assert!(goes_to_the_store(local_queue, owner));
    again
}

/// A release that is not answered is waited for as long as a hand-off is.
#[tokio::test(start_paused = true)]
async fn who_has_given_way_asks_soon_without_an_answer() {
    for again_waits in [true, false] {
        let (local_queue, owners) = (local_queue(), OwnerSource::new().expect("random bytes"));
        let guard = LockManager::in_memory().fair("k").acquire().await.expect("it is free");
        let owner = owners.mint_grouped();
        let mut again = Some(gives_way_to_the_last(&local_queue, &guard, owner));
        assert!(!again.as_ref().is_some_and(Waiter::asks_or_steps_back), "the grant is being released");
        assert!(!again.as_ref().is_some_and(Waiter::take_ask), "it waits");
        again = again.filter(|_| again_waits);
        assert!(local_queue.needs_reclaim());
        tokio::time::advance(PATIENCE - Duration::from_millis(1)).await;
        local_queue.reclaim(PATIENCE);
        assert!(
            local_queue.needs_reclaim() && !again.as_ref().is_some_and(|again| asks(&local_queue, again))
        );
        tokio::time::advance(Duration::from_millis(1)).await;
        local_queue.reclaim(PATIENCE);
        assert!(again.as_ref().is_none_or(|again| asks(&local_queue, again)), "without the answer");
        // It comes after all.
        local_queue.freed(&key(), owner);
        drop(again);
        assert!(local_queue.is_empty());
    }
}

/// A head that is not polled again is skipped, as any other.
#[tokio::test(start_paused = true)]
async fn who_gives_way_and_is_not_polled_is_skipped() {
    let (local_queue, owners) = (local_queue(), OwnerSource::new().expect("random bytes"));
    let guard = LockManager::in_memory().fair("k").acquire().await.expect("it is free");
    let owner = owners.mint_grouped();
    let mut again = gives_way_to_the_last(&local_queue, &guard, owner);
    let mut next = wait_in_group(&local_queue, TTL);
    tokio::time::advance(Duration::from_millis(1_100)).await;
    looks(&local_queue, &mut next, None);
    local_queue.freed(&key(), owner);
    assert!(asks(&local_queue, &next) && next.answered(Placed::Queued(owners.mint_grouped())));
    assert!(!again.asks_or_steps_back(), "it is in no group");
    looks(&local_queue, &mut again, None);
    assert!(asks(&local_queue, &again), "it joins again");
    drop((again, next));
    assert!(local_queue.is_empty());
}

/// A group that came before the one that gives way goes first, also where it loses its place meanwhile.
#[tokio::test(start_paused = true)]
async fn who_gives_way_steps_back_behind_those_who_came_before() {
    let (local_queue, owners) = (local_queue(), OwnerSource::new().expect("random bytes"));
    let guard = LockManager::in_memory().fair("k").acquire().await.expect("it is free");
    let [owner, lost] = [owners.mint_grouped(), owners.mint_grouped()];
    let join = |ttl| wait_in_group(&local_queue, ttl);
    let (mut first, second) = (join(TTL), join(TTL));
    assert!(asks(&local_queue, &first));
    first.granted(owner, true);
    let [earlier, earliest] = [join(2 * TTL), join(2 * TTL)];
    assert!(asks(&local_queue, &earlier) && earlier.answered(Placed::Queued(lost)));
    assert!(hands_on(&local_queue, &guard, owner));
    let again = join(TTL);
    assert!(again.take_ask() && again.gives_way());
    // Its entry goes to nobody, so the rest of its group asks anew.
    drop(earlier);
    assert!(!again.asks_or_steps_back());
    assert!(asks(&local_queue, &earliest) && !asks(&local_queue, &again), "in their order");
    assert!(earliest.answered(Placed::Queued(owners.mint_grouped())) && asks(&local_queue, &again));
    local_queue.freed(&key(), owner);
    drop((first, second, earliest, again));
    assert!(local_queue.is_empty());
}
