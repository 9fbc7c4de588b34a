use super::*;
use crate::clock::Clock;

fn lease(id: i64, ttl: u64) -> Lease {
    Lease { id, ttl: Duration::from_secs(ttl), sent: Clock::Suspend.now() }
}

#[test]
fn every_lease_that_was_asked_for_is_found_until_it_is_revoked() {
    let ledger = Ledger::default();
    ledger.ask(b"a/1", lease(1, 4));
    ledger.ask(b"a/1", lease(2, 60));
    ledger.ask(b"a/1", lease(3, 60));
    // The server may give more than was asked for.
    ledger.given(b"a/1", lease(1, 5));
    ledger.given(b"a/1", lease(2, 60));
    assert_eq!(ledger.lease(b"a/1", 1).map(|lease| lease.ttl), Some(Duration::from_secs(5)));
    [3, 9].iter().for_each(|id| ledger.missing(b"a/1", *id));
    assert_eq!(ledger.ids(b"a/1"), [1, 2, 3], "it may yet arrive");
    ledger.revoked(b"a/1", 3);
    ledger.hold(b"a/1", b"a/name", Held { created: 77, granted: 78, lease: lease(2, 60) });
    assert_eq!(ledger.ids(b"a/1"), [1, 2]);
    assert_eq!(ledger.held(b"a/1", 77).map(|held| (held.granted, held.lease.id)), Some((78, 2)));
    assert_eq!(ledger.held(b"a/1", 76), None, "another entry of the same name");
    ledger.revoked(b"a/1", 1);
    assert_eq!((ledger.ids(b"a/1"), ledger.held(b"a/1", 77).is_some()), (vec![2], true));
    ledger.revoked(b"a/1", 2);
    assert_eq!((ledger.ids(b"a/1"), ledger.held(b"a/1", 77)), (Vec::new(), None));
    assert!(ledger.0.lock().pages.is_empty());
}

/// A lease that was given and that the entry is not bound to unsettles it: a request may yet bind it to that one.
#[test]
fn an_entry_is_settled_while_it_can_be_bound_to_one_lease_alone() {
    let ledger = Ledger::default();
    let held = |id| Held { created: 77, granted: 78, lease: lease(id, 10) };
    assert!(!ledger.is_settled(b"a/1", 1), "nothing is known");
    ledger.ask(b"a/1", lease(1, 10));
    ledger.given(b"a/1", lease(1, 10));
    assert!(!ledger.is_settled(b"a/1", 1), "it is not known to hold the key");
    ledger.hold(b"a/1", b"a/name", held(1));
    assert!(ledger.is_settled(b"a/1", 1) && !ledger.is_settled(b"a/1", 2));
    ledger.ask(b"a/1", lease(2, 12));
    assert!(ledger.is_settled(b"a/1", 1), "nothing is bound to a lease before it is given");
    ledger.given(b"a/1", lease(2, 12));
    assert!(!ledger.is_settled(b"a/1", 1));
    assert_eq!((ledger.strays(b"a/1", 1), ledger.strays(b"a/1", 2)), (vec![2], vec![1]));
    // The request for it was executed, or it was given back.
    ledger.revoked(b"a/1", 1);
    ledger.hold(b"a/1", b"a/name", held(2));
    assert!(ledger.is_settled(b"a/1", 2));
    assert_eq!(ledger.strays(b"b/1", 0), []);
}

#[test]
fn a_lease_that_was_kept_alive_may_outlive_a_longer_one() {
    let ledger = Ledger::default();
    let start = Clock::Suspend.now();
    let kept = |after| Lease { sent: start.plus(Duration::from_secs(after)), ..lease(1, 10) };
    let longer = Lease { sent: start, ..lease(2, 12) };
    assert!(!ledger.outlives(b"a/1", 77, longer, start), "nothing is known");
    for (after, expected) in [(0, false), (2, false), (3, true)] {
        ledger.hold(b"a/1", b"a/name", Held { created: 77, granted: 78, lease: kept(after) });
        assert_eq!(ledger.outlives(b"a/1", 77, longer, start), expected, "kept alive after {after} s");
    }
    assert!(!ledger.outlives(b"a/1", 76, longer, start), "another entry of the same name");
}

/// The page of a waiter that gives signs of life stays, however long it waits.
#[test]
fn what_is_kept_alive_is_not_dropped() {
    let ledger = Ledger::default();
    let start = Clock::Suspend.now();
    for stored in [b"kept", b"gone"] {
        ledger.ask(stored, Lease { sent: start, ..lease(1, 4) });
        ledger.given(stored, Lease { sent: start, ..lease(1, 4) });
    }
    let after = |seconds| start.plus(Duration::from_secs(seconds));
    ledger.kept(b"kept", Lease { sent: after(3_599), ..lease(1, 4) });
    for number in 0..SWEEP_FROM {
        ledger.ask(&number.to_be_bytes(), Lease { sent: after(3_600), ..lease(1, 10) });
    }
    assert_eq!((ledger.ids(b"kept"), ledger.ids(b"gone")), (vec![1], vec![]));
}

#[test]
fn what_ran_out_long_ago_is_dropped() {
    let ledger = Ledger::default();
    for number in 0..SWEEP_FROM {
        ledger.ask(&number.to_be_bytes(), lease(1, 10));
    }
    let later = Lease { sent: Clock::Suspend.now().plus(Duration::from_secs(3_600)), ..lease(2, 10) };
    ledger.ask(b"live", later);
    let left = ledger.0.lock().pages.len();
    assert_eq!((left, ledger.ids(b"live")), (1, vec![2]));
}

/// The end of a lease that was asked for and not answered may come at any time.
#[test]
fn a_lease_is_being_revoked_until_its_end_is_answered() {
    let ledger = Ledger::default();
    for id in [1, 2] {
        ledger.ask(b"a/1", lease(id, 4));
        ledger.given(b"a/1", lease(id, 4));
    }
    assert!(ledger.begin_revoke(&[b"a/1"], 1));
    assert!(
        ledger.is_being_revoked(b"a/1", 1)
            && !ledger.is_being_revoked(b"a/1", 2)
            && !ledger.is_being_revoked(b"b/1", 1)
    );
    ledger.revoked(b"a/1", 1);
    assert!(!ledger.is_being_revoked(b"a/1", 1));
}

/// Of two that count anew at the same moment, the first is right.
#[test]
fn tokens_are_counted_from_the_grant_or_from_the_last_revision_that_was_made_for_them() {
    let (ledger, since) = (Ledger::default(), |revision, handoffs| Since { revision, handoffs });
    assert_eq!(ledger.counted_since(b"a/1", 77), None, "nobody holds it");
    ledger.hold(b"a/1", b"a/name", Held { created: 77, granted: 78, lease: lease(1, 60) });
    let granted = ledger.counted_since(b"a/1", 77);
    assert_eq!((granted, ledger.counted_since(b"a/1", 76)), (Some(since(78, 0)), None));
    assert_eq!(ledger.renumber(b"a/1", 77, granted, since(90, 5)), since(90, 5));
    assert_eq!(ledger.renumber(b"a/1", 77, granted, since(91, 5)), since(90, 5), "somebody was faster");
    ledger.hold(b"a/1", b"a/name", Held { created: 77, granted: 78, lease: lease(1, 60) });
    assert_eq!(ledger.counted_since(b"a/1", 77), Some(since(90, 5)), "a renewal changes nothing");
    ledger.hold(b"a/1", b"a/name", Held { created: 95, granted: 95, lease: lease(1, 60) });
    assert_eq!(ledger.counted_since(b"a/1", 95), Some(since(95, 0)), "another grant");
}
