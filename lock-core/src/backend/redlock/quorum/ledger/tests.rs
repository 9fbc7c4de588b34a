use super::*;
use crate::clock::Clock;
use crate::owner::OwnerSource;

const TTL: Duration = Duration::from_secs(10);

fn owners<const N: usize>() -> [Owner; N] {
    let source = OwnerSource::new().expect("random bytes");
    std::array::from_fn(|_| source.mint())
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_forgotten_with_its_last_request_unless_there_is_something_to_remember() {
    let (ledger, [owner, other], now) = (OwnerLedger::new(3), owners(), Clock::Tokio.now());
    let tracked = ledger.track(owner, now, TTL);
    let slot = tracked.slot(1).await;
    drop(tracked);
    assert_eq!(ledger.len(), 1, "a request is under way");
    slot.tracked.releasing(1);
    drop(slot);
    assert_eq!(ledger.len(), 1, "a release was not answered");
    assert!(!ledger.track(owner, now, TTL).is_sure(1));
    ledger.track(owner, now, TTL).released(1);
    assert_eq!(ledger.len(), 0);

    let tracked = ledger.track(other, now, TTL);
    tracked.kept(now, now.plus(TTL));
    drop(tracked);
    assert_eq!(ledger.len(), 1, "it has the grant");
    ledger.track(other, now, TTL).returns();
    assert_eq!(ledger.len(), 0, "an owner is never used again after it was given back");
}

#[tokio::test(start_paused = true)]
async fn an_answer_vouches_for_no_earlier_release() {
    let (ledger, [owner], now) = (OwnerLedger::new(3), owners(), Clock::Tokio.now());
    let tracked = ledger.track(owner, now, TTL);
    tracked.releasing(1);
    tracked.releasing(1);
    tracked.released(1);
    assert!(!tracked.is_sure(1), "the first may be on its way over a connection that was replaced");
    tracked.released(1);
    assert!(tracked.is_sure(1) && tracked.is_sure(0));
}

#[tokio::test(start_paused = true)]
async fn what_is_never_given_back_is_swept() {
    let (ledger, now) = (OwnerLedger::new(3), Clock::Tokio.now());
    let late = now.plus(TTL).plus(GRACE);
    for owner in owners::<100>() {
        ledger.track(owner, now, TTL).releasing(0);
    }
    assert_eq!(ledger.len(), 100);
    for owner in owners::<100>() {
        ledger.track(owner, late, TTL).releasing(0);
    }
    assert_eq!(ledger.len(), 100, "those of the first hundred are over");
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_owner_to_one_node_go_one_after_another() {
    let (ledger, [owner], now) = (OwnerLedger::new(3), owners(), Clock::Tokio.now());
    let (first, second) = (ledger.track(owner, now, TTL), ledger.track(owner, now, TTL));
    let slot = first.free_slot(0).expect("nobody asks");
    assert!(second.free_slot(0).is_none() && second.free_slot(1).is_some());
    drop(slot);
    assert!(second.free_slot(0).is_some());
}

#[test]
fn a_renewal_that_is_answered_during_the_release_does_not_bring_the_grant_back() {
    let source = OwnerSource::new().expect("random bytes");
    let (ledger, now) = (OwnerLedger::new(3), Clock::Suspend.now());
    let held = || {
        let tracked = ledger.track(source.mint(), now, TTL);
        tracked.kept(now, now.plus(TTL));
        tracked
    };
    let rounds: Vec<_> = std::iter::repeat_with(held).take(50_000).collect();
    let renewed = |round: usize| {
        rounds[round].kept(now, now.plus(TTL * 2));
        rounds[round].set_fence(0, FencingToken::new(7));
    };
    let count = crate::sync::in_step(rounds.len(), renewed, |round| rounds[round].returns());
    for tracked in rounds.iter().take(count) {
        assert_eq!((tracked.left(now), tracked.entry.memory().fence.is_some()), (None, false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_known_for_its_turn_and_while_the_grant_is_certainly_ours() {
    let (ledger, [owner], now) = (OwnerLedger::new(3), owners(), Clock::Tokio.now());
    let tracked = ledger.track(owner, now, TTL);
    let token = FencingToken::new(7);
    tracked.kept(now, now.plus(TTL));
    tracked.set_fence(1, token);
    assert_eq!([0, 1, 2].map(|turn| tracked.fence(turn, now)), [None, Some(token), None]);
    tracked.kept(now.plus(TTL / 2), now.plus(TTL * 2));
    tracked.kept(now.plus(TTL / 2), now.plus(TTL));
    assert_eq!(tracked.left(now.plus(TTL)), Some(TTL), "what is late shortens nothing");
    assert_eq!(tracked.fence(1, now.plus(TTL)), Some(token));
    assert_eq!(tracked.fence(1, now.plus(TTL * 2)), None);
    tracked.kept(now.plus(TTL * 3), now.plus(TTL * 4));
    assert_eq!(tracked.fence(1, now.plus(TTL * 3)), None, "it was nobody's for a while, or another's");
}
