use std::time::Duration;

use lock_core::backend::memory::Memory;
#[cfg(feature = "redlock")]
use lock_core::backend::redlock::quorum::Quorum;
use lock_core::backend::{Fencing, Mode};
use lock_core::{LockErrorKind, LockManager, LossReason, Released, strategy};
use tokio::time::Instant;

use super::{depose, label, settle};
use crate::scripted::Scripted;
use crate::{is_free, millis};

#[tokio::test(start_paused = true)]
async fn candidates_lead_in_the_order_in_which_they_came() {
    let locks = LockManager::in_memory();
    let [first, second, third] = ["1", "2", "3"].map(|name| locks.leader("k").label(name));
    let one = first.campaign().await.unwrap();
    let waits = |election: &lock_core::LeaderElection| {
        let election = election.clone();
        tokio::spawn(async move { election.campaign().await })
    };
    let (two, three) = (waits(&second), {
        settle().await;
        waits(&third)
    });
    settle().await;
    assert!(first.is_leader() && !second.is_leader() && !two.is_finished());
    assert_eq!(one.resign().await.unwrap(), Released::Released);
    let two_leads = two.await.unwrap().unwrap();
    assert!(!first.is_leader() && second.is_leader() && !three.is_finished());
    assert_eq!(label(first.current().await.unwrap().as_ref()), Some("2"), "not that of the leader before");
    let token = two_leads.fencing_token();
    drop(two_leads);
    let three = three.await.unwrap().unwrap();
    assert!(three.fencing_token() > token && !second.is_leader());
    assert!(third.current().await.unwrap().unwrap().is_self);
}

/// A manager whose runtime has ended acts as a killed process: it neither renews nor releases.
#[test]
fn a_leader_that_dies_is_followed_after_its_ttl() {
    let store = Memory::new();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let dead = first.block_on(async {
        let locks = LockManager::builder(store.clone()).build().unwrap();
        locks.leader("k").ttl(millis(300)).campaign().await.unwrap()
    });
    drop(first);
    let followed = runtime().block_on(async {
        let began = Instant::now();
        let locks = LockManager::builder(store.clone()).build().unwrap();
        let next = locks.leader("k").campaign().await.unwrap();
        assert!(!dead.is_held() && next.fencing_token() > dead.fencing_token());
        began.elapsed()
    });
    assert!(followed < millis(5_000), "{followed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_is_told_and_may_lead_again() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k").ttl(millis(60_000));
    let first = election.campaign().await.unwrap();
    let work = tokio::spawn({
        let handle = first.handle();
        async move { handle.lost().await }
    });
    settle().await;
    assert!(depose(&locks, "k").await.unwrap());
    assert_eq!(work.await.unwrap(), LossReason::Forced);
    assert_eq!(first.lost().await, LossReason::Forced);
    assert!(!first.is_held() && !election.is_leader() && first.check().unwrap_err().is_lost());
    assert!(first.run(async {}).await.unwrap_err().is_lost());
    let second = election.campaign().await.unwrap();
    assert!(second.fencing_token() > first.fencing_token());
    // The guard of the earlier, lost term does not end the current term.
    drop(first);
    assert!(election.is_leader());
    assert_eq!(second.run(async { 1 }).await.unwrap(), 1);
    assert!(second.resign().await.is_ok() && !election.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_longest_term_passes_the_lead_on() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k").max_hold(millis(3_000));
    let led = election.campaign().await.unwrap();
    let other = locks.leader("k");
    let next = tokio::spawn(async move { other.campaign().await });
    assert_eq!(led.lost().await, LossReason::MaxHold);
    drop(led);
    assert!(next.await.unwrap().unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_campaign_that_is_dropped_leaves_nothing() {
    let locks = LockManager::in_memory();
    let leader = locks.leader("k").campaign().await.unwrap();
    for _ in 0..3 {
        let election = locks.leader("k");
        assert!(tokio::time::timeout(millis(100), election.campaign()).await.is_err());
        settle().await;
        assert_eq!(locks.inspect("k").await.unwrap().unwrap().waiting, 0);
    }
    drop(leader);
    settle().await;
    assert!(is_free(&locks, "k").await);
}

#[tokio::test(start_paused = true)]
async fn the_defaults_of_the_manager_do_not_make_a_candidate_give_up() {
    let builder = LockManager::builder(Memory::new()).strategy(strategy::retry()).wait(millis(50));
    let locks = builder.linger(millis(500)).namespace("shop").build().unwrap();
    let leader = locks.leader("k").campaign().await.unwrap();
    let election = locks.leader("k");
    election.check().unwrap();
    let waits = tokio::spawn(async move { election.campaign().await });
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!waits.is_finished() && leader.is_held(), "one leads and is renewed, the other waits");
    assert_eq!(leader.guard().key(), "shop:k");
    leader.resign().await.unwrap();
    let began = Instant::now();
    assert!(waits.await.unwrap().unwrap().is_held());
    assert_eq!(began.elapsed(), Duration::ZERO, "nothing lingers");
}

#[tokio::test(start_paused = true)]
async fn who_leads_is_what_the_store_shows() {
    let locks = LockManager::in_memory();
    let election = locks.leader("k").label("a");
    assert!(election.current().await.unwrap().is_none());
    let leadership = election.campaign().await.unwrap();
    let own = election.current().await.unwrap().unwrap();
    assert_eq!((label(Some(&own)), own.is_self), (Some("a"), true));
    assert_eq!(own.fencing_token, Some(leadership.fencing_token()));
    assert!(own.remaining.is_some_and(|left| left > millis(9_000)));
    assert!(own.to_string().ends_with("(a)"), "{own}");
    let other = locks.leader("k").current().await.unwrap().unwrap();
    assert_eq!((other.id, other.is_self, other.fencing_token), (own.id, false, None));
    leadership.resign().await.unwrap();
    // A key that is kept after its release has no leader.
    locks.lock("k").min_hold(millis(500)).run(async {}).await.unwrap();
    assert!(locks.is_locked("k").await.unwrap() && election.current().await.unwrap().is_none());
    tokio::time::sleep(millis(600)).await;
    let permit = locks.semaphore("k", 3).acquire().await.unwrap();
    let refused = election.current().await.unwrap_err();
    assert_eq!(refused.kind(), LockErrorKind::InvalidRequest);
    assert!(refused.to_string().contains(&*Mode::Permit { of: 3 }.name()), "{refused}");
    assert_eq!(election.campaign().await.unwrap_err().kind(), LockErrorKind::InvalidRequest);
    drop(permit);
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_the_key_keeps_candidates_out() {
    let locks = LockManager::in_memory();
    let guard = locks.lock("k").acquire().await.unwrap();
    let election = locks.leader("k");
    assert!(tokio::time::timeout(millis(100), election.campaign()).await.is_err());
    guard.release().await.unwrap();
    let leadership = election.campaign().await.unwrap();
    assert!(!is_free(&locks, "k").await);
    drop(leadership);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_fencing_tokens_has_no_leaders() {
    let (locks, _store) = Scripted::manager(|store| store.fencing = Fencing::None);
    let refused = locks.leader("k").campaign().await.unwrap_err();
    assert_eq!(refused.kind(), LockErrorKind::Unsupported);
    assert!(refused.to_string().contains("fencing"), "{refused}");
    assert_eq!(locks.leader("k").check().unwrap_err().kind(), LockErrorKind::Unsupported);
    assert_eq!(locks.leader("").check().unwrap_err().kind(), LockErrorKind::InvalidKey);
    assert_eq!(locks.leader("").current().await.unwrap_err().kind(), LockErrorKind::InvalidKey);
}

/// A quorum keeps no order of waiters, and cannot name the holder.
#[cfg(feature = "redlock")]
#[tokio::test(start_paused = true)]
async fn one_leads_where_the_store_knows_no_order() {
    let nodes = vec![Memory::new(), Memory::new(), Memory::new()];
    let locks = LockManager::builder(Quorum::new(nodes).unwrap()).build().unwrap();
    let election = locks.leader("k");
    let first = election.campaign().await.unwrap();
    let other = locks.leader("k");
    let waits = tokio::spawn(async move { other.campaign().await });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!waits.is_finished() && first.is_held());
    let token = first.fencing_token();
    first.resign().await.unwrap();
    assert!(waits.await.unwrap().unwrap().fencing_token() > token);
    let refused = election.current().await.unwrap_err();
    assert_eq!(refused.kind(), LockErrorKind::Unsupported);
    assert!(refused.to_string().contains("cannot say who holds"), "{refused}");
}
