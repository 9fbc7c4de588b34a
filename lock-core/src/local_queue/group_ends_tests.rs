use std::time::Duration;

use super::Placed;
use super::group_tests::{asks, wait_in_group};
use super::tests::{TTL, key, local_queue};
use crate::manager::LockManager;
use crate::owner::OwnerSource;

/// A transaction has verified the grant: its release names an owner, whose entry the rest of the group has.
#[tokio::test(start_paused = true)]
async fn those_who_share_a_verified_grant_have_the_place_of_its_successor() {
    for (leaves, is_late) in [(false, false), (true, false), (false, true)] {
        let (local_queue, owners) = (local_queue(), OwnerSource::new().expect("random bytes"));
        let guard = LockManager::in_memory().fair("k").ttl(TTL).acquire().await.expect("it is free");
        let (lease, owner) = (guard.lease(), owners.mint_grouped());
        let join = || wait_in_group(&local_queue, TTL);
        let (mut first, second, third) = (join(), join(), join());
        assert!(asks(&local_queue, &first));
        first.granted(owner, false);
        let fourth = join();
        assert!(asks(&local_queue, &fourth));
        let release = || {
            let handoff = |ttl, now| lease.as_handoff(ttl, now);
            local_queue.hand_off_in_group(&key(), owner, || lease.now(), handoff, || lease.succession())
        };
        lease.note_verified();
        assert!(!release(), "it goes to the store");
        let next = lease.claim().successor().expect("its release names one");
        let entry = second.take_left().0.expect("the head has its entry");
        assert_eq!(entry.claim.owner, next);
        assert!(entry.is_queued() && !second.is_head(), "nobody asks after it before the answer");
        assert!(!asks(&local_queue, &join()), "nor does a newcomer ask");
        assert!(fourth.answered(Placed::Behind(if leaves { owner } else { next })), "it is of the group");
        local_queue.check_groups(&key());
        let holder = if leaves {
            assert!(second.leave_with(Some(entry)).is_none(), "it goes to the next");
            let entry = third.take_left().0.expect("the entry");
            assert_eq!(entry.claim.owner, next);
            drop(entry);
            third
        } else {
            drop((entry, third));
            second
        };
        if is_late {
            tokio::time::advance(Duration::from_secs(2)).await;
            holder.skip_stalled(local_queue.clock.now());
        } else {
            local_queue.freed(&key(), owner);
        }
        assert!(holder.is_head() && !holder.take_ask(), "from now on it sends heartbeats");
        local_queue.check_groups(&key());
        drop((first, holder, fourth));
        assert!(local_queue.is_empty());
    }
}

/// Where nobody shares it, and where it can be handed off, no owner is named.
#[tokio::test(start_paused = true)]
async fn no_successor_is_named_for_nobody() {
    for (verified, shared) in [(true, false), (false, true)] {
        let (local_queue, owners) = (local_queue(), OwnerSource::new().expect("random bytes"));
        let guard = LockManager::in_memory().fair("k").ttl(TTL).acquire().await.expect("it is free");
        let (lease, owner) = (guard.lease(), owners.mint_grouped());
        let mut first = wait_in_group(&local_queue, TTL);
        assert!(asks(&local_queue, &first));
        let second = shared.then(|| wait_in_group(&local_queue, TTL));
        first.granted(owner, false);
        if verified {
            lease.note_verified();
        }
        let stays =
            local_queue.hand_off_in_group(&key(), owner, || lease.now(), |_, _| None, || lease.succession());
        assert!(!stays && lease.claim().successor().is_none());
        local_queue.freed(&key(), owner);
        drop((first, second));
        assert!(local_queue.is_empty());
    }
}
