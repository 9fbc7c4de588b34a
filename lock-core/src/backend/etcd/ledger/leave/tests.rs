use super::*;
use crate::backend::etcd::ledger::Held;
use crate::clock::Clock;

const TTL: Duration = Duration::from_secs(8);

fn lease(id: i64) -> Lease {
    Lease { id, ttl: TTL, sent: Clock::Suspend.now() }
}

fn held(id: i64) -> Held {
    Held { created: 77, granted: 78, lease: lease(id) }
}

/// Returns a ledger in which the entry holds its key on lease 1.
fn holding() -> Ledger {
    let ledger = Ledger::default();
    ledger.ask(b"a/1", lease(1));
    ledger.given(b"a/1", lease(1));
    ledger.begin_bind(b"a/1", b"a/name", 1);
    ledger.bound(b"a/1", 1);
    ledger.hold(b"a/1", b"a/name", held(1));
    ledger
}

fn begins(ledger: &Ledger) -> bool {
    ledger.begin_leave(b"a/1", Clock::Suspend.now()).is_some()
}

fn ends(ledger: &Ledger) -> bool {
    ledger.end_leave(b"a/1", 1, Clock::Suspend.now())
}

fn taken(ledger: &Ledger, stored: &[u8]) -> Option<i64> {
    ledger.take_spare(stored, TTL, TTL, Clock::Suspend.now()).map(|lease| lease.id)
}

#[test]
fn the_lease_of_an_entry_goes_to_the_next() {
    let ledger = holding();
    let leaving = ledger.begin_leave(b"a/1", Clock::Suspend.now());
    assert_eq!(leaving, Some(Leaving { lease: 1, created: Some(77) }));
    assert_eq!(taken(&ledger, b"b/2"), None, "the entry may be there yet");
    assert!(ends(&ledger));
    assert!(ledger.ids(b"a/1").is_empty(), "nothing of it is left");
    assert_eq!(taken(&ledger, b"b/2"), Some(1));
    assert_eq!((ledger.ids(b"b/2"), taken(&ledger, b"c/3")), (vec![1], None));
}

#[test]
fn a_waiter_leaves_its_lease_too() {
    let ledger = Ledger::default();
    ledger.ask(b"a/1", lease(1));
    ledger.given(b"a/1", lease(1));
    let leaving = ledger.begin_leave(b"a/1", Clock::Suspend.now());
    assert_eq!(leaving, Some(Leaving { lease: 1, created: None }));
    assert!(ends(&ledger));
}

/// Each of these leaves something that may yet bind the entry to the lease, or end it.
#[test]
fn a_lease_about_which_something_is_under_way_is_left_to_nobody() {
    let doubts: &[(&str, fn(&Ledger))] = &[
        ("a request that binds the entry to it", |ledger| {
            ledger.begin_bind(b"a/1", b"a/name", 1);
        }),
        ("one of two such requests", |ledger| {
            ledger.begin_bind(b"a/1", b"a/name", 1);
            ledger.begin_bind(b"a/1", b"a/name", 1);
            ledger.bound(b"a/1", 1);
        }),
        ("a request that ends it", |ledger| {
            ledger.begin_revoke(&[b"a/1"], 1);
        }),
        ("another lease that was asked for", |ledger| ledger.ask(b"a/1", lease(2))),
        ("another lease that was given", |ledger| {
            ledger.ask(b"a/1", lease(2));
            ledger.given(b"a/1", lease(2));
        }),
        ("another release, or a further key of the lease", |ledger| ledger.doubt(b"a/1")),
    ];
    for (what, happens) in doubts {
        let ledger = holding();
        happens(&ledger);
        assert!(!begins(&ledger), "{what}, before the release");
        let ledger = holding();
        assert!(begins(&ledger), "{what}: this shows nothing");
        happens(&ledger);
        assert!(!ends(&ledger), "{what}, during the release");
        assert_eq!((ledger.ids(b"a/1").contains(&1), taken(&ledger, b"b/2")), (true, None), "{what}");
    }
    let ledger = Ledger::default();
    ledger.ask(b"a/1", lease(1));
    assert!(!begins(&ledger), "it was not given");
    let ledger = Ledger::default();
    ledger.hold(b"a/1", b"a/name", held(1));
    assert!(!begins(&ledger), "its origin is unknown");
}

/// The first deletion may not have been answered.
#[test]
fn only_the_first_release_leaves_a_lease() {
    let ledger = holding();
    assert!(begins(&ledger) && !begins(&ledger));
}

#[test]
fn a_lease_that_was_bound_to_an_entry_later_is_left_as_well() {
    let ledger = holding();
    ledger.ask(b"a/1", lease(2));
    ledger.given(b"a/1", lease(2));
    ledger.begin_bind(b"a/1", b"a/name", 2);
    ledger.bound(b"a/1", 2);
    ledger.revoked(b"a/1", 1);
    ledger.hold(b"a/1", b"a/name", held(2));
    assert!(begins(&ledger) && ledger.end_leave(b"a/1", 2, Clock::Suspend.now()));
}

#[test]
fn an_old_lease_is_not_left() {
    let (ledger, old) = (holding(), Clock::Suspend.now().plus(TTL / 4));
    assert_eq!(ledger.begin_leave(b"a/1", old), None);
    assert!(begins(&ledger) && !ledger.end_leave(b"a/1", 1, old));
    assert_eq!(ledger.ids(b"a/1"), [1], "it is revoked");
}

/// Renewals and releases of the former entry that were overtaken do not touch the lease of the next one.
#[test]
fn the_former_entry_has_nothing_to_do_with_a_lease_that_it_has_left() {
    let ledger = holding();
    assert!(begins(&ledger) && ends(&ledger));
    for takes in [false, true] {
        if takes {
            assert_eq!(taken(&ledger, b"b/2"), Some(1));
        }
        ledger.hold(b"a/1", b"a/name", held(1));
        assert!(!ledger.is_settled(b"a/1", 1) && ledger.ids(b"a/1").is_empty());
        assert!(ledger.is_elsewhere(b"a/1", 1) && !ledger.begin_revoke(&[b"a/1"], 1));
        assert_eq!(ledger.is_elsewhere(b"b/2", 1), !takes);
    }
    // Until the next one has ended it.
    ledger.revoked(b"b/2", 1);
    assert!(!ledger.is_elsewhere(b"a/1", 1));
}

#[test]
fn a_lease_that_nothing_was_bound_to_is_left() {
    let now = Clock::Suspend.now();
    let ledger = holding();
    assert!(!ledger.leave_unused(b"a/1", 1, now), "the entry has it");
    assert!(begins(&ledger) && ends(&ledger));
    assert_eq!(taken(&ledger, b"b/2"), Some(1));
    assert!(!ledger.leave_unused(b"b/2", 9, now), "another one");
    ledger.begin_bind(b"b/2", b"b/name", 1);
    assert!(!ledger.leave_unused(b"b/2", 1, now), "it may be bound to it yet");
    ledger.bound(b"b/2", 1);
    assert!(ledger.leave_unused(b"b/2", 1, now));
    assert_eq!(ledger.drain_spares().len(), 1);
}

#[test]
fn an_entry_of_which_something_is_known_takes_no_spare_lease() {
    let ledger = holding();
    assert!(begins(&ledger) && ends(&ledger));
    ledger.ask(b"b/2", lease(2));
    assert_eq!((taken(&ledger, b"b/2"), taken(&ledger, b"c/3")), (None, Some(1)));
}

/// Returns a ledger in which an entry that waits on lease 1 is about to be bound to lease 2 instead, which was spare.
fn instead() -> Ledger {
    let ledger = holding();
    ledger.revoked(b"a/1", 1);
    for (stored, id) in [(b"b/2", 2), (b"a/1", 1)] {
        ledger.ask(stored, lease(id));
        ledger.given(stored, lease(id));
    }
    assert!(ledger.leave_unused(b"b/2", 2, Clock::Suspend.now()));
    let instead = ledger.take_instead(b"a/1", TTL, TTL, Clock::Suspend.now());
    assert_eq!(instead.map(|lease| lease.id), Some(2));
    ledger
}

#[test]
fn an_entry_that_is_bound_to_another_lease_leaves_the_former() {
    let ledger = instead();
    assert!(!begins(&ledger), "it may have either");
    ledger.leave_former(b"a/1", 1, Clock::Suspend.now());
    assert_eq!((ledger.ids(b"a/1"), taken(&ledger, b"c/3")), (vec![2], Some(1)));
    assert!(!ledger.begin_revoke(&[b"a/1"], 1), "a call that has seen the entry on it");
    assert!(ledger.begin_revoke(&[b"c/3"], 1) && ledger.begin_revoke(&[b"a/1"], 2));
}

#[test]
fn a_former_lease_in_doubt_is_left_to_itself() {
    let doubts: &[fn(&Ledger)] = &[
        |ledger| ledger.doubt(b"a/1"),
        |ledger| {
            ledger.begin_bind(b"a/1", b"a/name", 1);
        },
        |ledger| {
            ledger.begin_revoke(&[b"a/1"], 1);
        },
    ];
    for happens in doubts {
        let ledger = instead();
        happens(&ledger);
        ledger.leave_former(b"a/1", 1, Clock::Suspend.now());
        assert_eq!((ledger.ids(b"a/1"), taken(&ledger, b"c/3")), (vec![2], None));
    }
}

#[test]
fn what_ends_a_spare_lease_ends_all() {
    let ledger = instead();
    ledger.leave_former(b"a/1", 1, Clock::Suspend.now());
    ledger.lapsed(b"a/1", 2);
    assert_eq!((ledger.ids(b"a/1"), taken(&ledger, b"c/3")), (vec![], None));
}

/// A lease that a page comes to know by a grant alone is not known from the start.
#[test]
fn a_lease_of_unknown_origin_is_left_to_nobody() {
    let ledger = Ledger::default();
    ledger.ask(b"a/1", lease(2));
    ledger.given(b"a/1", lease(2));
    ledger.hold(b"a/1", b"a/name", held(1));
    ledger.revoked(b"a/1", 2);
    assert_eq!(ledger.ids(b"a/1"), [1]);
    assert!(!begins(&ledger));
}

/// What is remembered of leases that were taken goes with the entries that have taken them.
#[test]
fn a_lease_that_ends_with_its_entry_is_forgotten() {
    let ledger = holding();
    assert!(begins(&ledger) && ends(&ledger));
    assert_eq!(taken(&ledger, b"b/2"), Some(1));
    assert!(ledger.is_elsewhere(b"a/1", 1));
    ledger.forget(b"b/2");
    assert!(!ledger.is_elsewhere(b"a/1", 1) && ledger.ids(b"b/2").is_empty());
}

fn name(ledger: &Ledger, own: &[u8]) -> Vec<u8> {
    ledger.stored(own).expect("a page")
}

#[test]
fn the_name_of_an_entry_that_is_gone_goes_to_the_next_of_its_line() {
    let ledger = holding();
    let first = name(&ledger, b"a/1");
    ledger.ask(b"a/2", lease(2));
    assert_ne!(name(&ledger, b"a/2"), first, "the entry is there");
    assert!(begins(&ledger));
    ledger.ask(b"a/3", lease(3));
    assert_ne!(name(&ledger, b"a/3"), first, "it may be there yet");
    assert!(ends(&ledger));
    assert_eq!(ledger.stored(b"a/1"), None, "the owner before has nothing to do with it");
    ledger.ask(b"b/1", lease(4));
    assert_ne!(name(&ledger, b"b/1"), first, "another line");
    assert_eq!((taken(&ledger, b"a/4"), name(&ledger, b"a/4")), (Some(1), first.clone()));
    ledger.rename(b"a/4");
    assert_ne!(name(&ledger, b"a/4"), first);
}

/// A request that was not answered may yet create the entry.
#[test]
fn a_name_of_which_something_is_under_way_is_left_to_nobody() {
    let doubts: [fn(&Ledger); 2] = [
        |ledger| {
            ledger.begin_bind(b"a/1", b"a/name", 1);
        },
        |ledger| ledger.ask(b"a/1", lease(2)),
    ];
    for happens in doubts {
        let ledger = holding();
        assert_eq!(ledger.name_to_leave(b"a/1"), ledger.stored(b"a/1"));
        happens(&ledger);
        assert_eq!(ledger.name_to_leave(b"a/1"), None);
    }
    assert_eq!(holding().name_to_leave(b"b/2"), None, "nothing is known of it");
}

#[test]
fn a_name_counts_as_written_once_a_request_for_it_may_arrive() {
    let ledger = Ledger::default();
    ledger.ask(b"a/1", lease(1));
    let chosen = name(&ledger, b"a/1");
    assert_eq!(ledger.written(b"a/1"), None);
    let before = ledger.begin_bind(b"a/1", &chosen, 1);
    assert_eq!((before, ledger.written(b"a/1")), (false, Some(chosen.clone())));
    ledger.not_written(b"a/1", 1, before);
    assert_eq!(ledger.written(b"a/1"), None, "it was refused");
    // Another store of the process has chosen the name of the entry.
    ledger.hold(b"a/1", b"a/theirs", held(1));
    assert_eq!(ledger.written(b"a/1"), Some(b"a/theirs".to_vec()));
    ledger.ask(b"a/2", lease(2));
    assert_eq!(name(&ledger, b"a/2"), chosen, "it was left");
}
