use super::*;
use crate::backend::Mode;
use crate::owner::OwnerSource;

const TTL: Duration = Duration::from_secs(5);

fn shared(id: i64) -> Lease {
    Lease::Shared(Arc::new(Session::new(id, TTL, now())))
}

/// Records an entry in the queue `line` that was created at revision 7 and is bound to `lease`.
fn created(entries: &Entries, line: &[u8], lease: &Lease, at: Moment) -> Id {
    let id = Id { line: line.to_vec(), owner: OwnerSource::new().expect("random bytes").mint() };
    entries.begin(&id, lease, Told::Waits, &[], at);
    entries.change(&id, |mine| (mine.created, mine.modified) = (Some(7), 7));
    id
}

fn uses(entries: &Entries, id: i64) -> bool {
    !entries.end_unused(&Session::new(id, TTL, now()))
}

/// Returns the entry that the request created.
fn entry_of(id: &Id, mine: &Mine) -> Entry {
    Entry {
        stored: mine.stored.clone(),
        created: 7,
        modified: 7,
        lease: mine.lease.id(),
        mode: Mode::Exclusive,
        owner: Some(id.owner),
        record: None,
        granted: None,
        kept: false,
    }
}

fn is_certain(entries: &Entries, id: &Id) -> bool {
    entries.get(id).is_some_and(|mine| mine.is_certain())
}

#[test]
fn a_name_is_used_by_one_entry_at_a_time() {
    let (entries, source) = (Entries::default(), OwnerSource::new().expect("random bytes"));
    let id = |line: &[u8]| Id { line: line.to_vec(), owner: source.mint() };
    let begin = |id: &Id, used: &[Vec<u8>]| {
        String::from_utf8(entries.begin(id, &shared(0xab), Told::Waits, used, now())).expect("text")
    };
    let (first, second) = (id(b"k/"), id(b"k/"));
    assert_eq!([begin(&first, &[]), begin(&second, &[])], ["k/ab", "k/ab-1"]);
    assert_eq!(begin(&id(b"l/"), &[]), "l/ab");
    let any_in = [&b"k/"[..], b"l/", b"j/", b"m/", b"kk/"].map(|line| entries.any_in(line));
    assert_eq!(any_in, [true, true, false, false, false]);
    entries.remove(&first);
    assert_eq!(begin(&id(b"k/"), &[b"k/ab".to_vec()]), "k/ab-2", "the first is in use by another owner");
    assert_eq!(begin(&id(b"k/"), &[]), "k/ab");
    let named = entries.named(&[b"k/ab-1".to_vec(), b"k/cd".to_vec()]);
    assert!(matches!(&named[..], [(id, _)] if *id == second));
}

#[test]
fn a_lost_lease_names_each_holder_once() {
    let (entries, source) = (Entries::default(), OwnerSource::new().expect("random bytes"));
    let [holds, waits, other] = [(); 3].map(|()| source.mint());
    for (line, owner, id, is_held) in
        [("a/", holds, 1, true), ("b/", holds, 1, true), ("a/", waits, 1, false), ("c/", other, 2, true)]
    {
        let entry = Id { line: line.as_bytes().to_vec(), owner };
        entries.begin(&entry, &shared(id), Told::Waits, &[], now());
        entries.change(&entry, |mine| mine.holds = is_held);
    }
    assert!(uses(&entries, 1) && uses(&entries, 2));
    assert_eq!(entries.lost(1), [holds]);
    assert!(!uses(&entries, 1) && uses(&entries, 2));
}

#[test]
fn a_session_ends_only_without_entries_and_grants_nothing_then() {
    let (entries, session) = (Entries::default(), Arc::new(Session::new(1, TTL, now())));
    let lease = Lease::Shared(Arc::clone(&session));
    let early = created(&entries, b"a/", &lease, now());
    assert!(!entries.end_unused(&session) && !session.is_over());
    assert!(entries.grant(&early, Some(7)).is_some_and(|mine| mine.holds));
    entries.remove(&early);
    let moves = created(&entries, b"b/", &shared(2), now());
    entries.change(&moves, |mine| mine.maybe.push(1));
    assert!(!entries.end_unused(&session), "a request may bind an entry to it");
    entries.remove(&moves);
    assert!(entries.end_unused(&session) && session.is_over());
    let late = created(&entries, b"c/", &lease, now());
    assert!(entries.grant(&late, Some(7)).is_none(), "it is revoked together with its session");
    assert!(entries.get(&late).is_some_and(|mine| !mine.holds));
}

#[test]
fn a_waiter_that_is_given_up_during_its_turn_is_not_granted() {
    let (entries, begun) = (Entries::default(), now());
    let waits = created(&entries, b"a/", &shared(1), begun);
    let later = begun.plus(TTL);
    assert!(is_certain(&entries, &waits), "it is checked, and then a sign of life is sent");
    assert_eq!(entries.doubt_unasked(1, TTL, later, 16).len(), 1);
    assert!(entries.grant(&waits, Some(9)).is_none(), "its entry is being deleted");
    entries.change(&waits, |mine| mine.maybe.clear());
    assert!(entries.grant(&waits, Some(9)).is_some(), "it was written since");
    assert!(entries.doubt_unasked(1, TTL, later.plus(TTL), 16).is_empty(), "it holds the key");
}

#[test]
fn a_waiter_that_does_not_ask_is_doubted_until_its_entry_is_deleted() {
    let (entries, begun) = (Entries::default(), now());
    let [asks, sleeps, holds] = [b"a/", b"b/", b"c/"].map(|line| created(&entries, line, &shared(1), begun));
    let later = begun.plus(TTL);
    entries.change(&asks, |mine| mine.asked = later);
    entries.change(&holds, |mine| mine.holds = true);
    let doubted = entries.doubt_unasked(1, TTL, later, 16);
    assert!(matches!(&doubted[..], [(id, _)] if *id == sleeps), "the one that sleeps");
    assert!(!is_certain(&entries, &sleeps), "it is written before it is relied on");
    assert!(entries.doubt_unasked(1, TTL, later, 16).is_empty(), "the next call is for others");
    entries.change(&asks, |mine| mine.asked = later.plus(TTL));
    let again = entries.doubt_unasked(1, TTL, later.plus(TTL), 16);
    assert!(matches!(&again[..], [(id, _)] if *id == sleeps), "the deletion may have failed");
    let given_up = entries.get(&sleeps).expect("it waits");
    let found = Entry { modified: 9, ..entry_of(&sleeps, &given_up) };
    entries.deleted(&sleeps, &given_up, Some(&found));
    assert_eq!(entries.get(&sleeps).map(|mine| mine.modified), Some(9), "an answer was lost");
    entries.deleted(&sleeps, &given_up, None);
    assert!(entries.get(&sleeps).is_some(), "it was written since");
    let given_up = entries.get(&sleeps).expect("it waits");
    entries.deleted(&sleeps, &given_up, None);
    assert!(entries.get(&sleeps).is_none());
    entries.deleted(&sleeps, &given_up, Some(&found));
    assert!(entries.get(&sleeps).is_none(), "its owner has released it");
    assert!(is_certain(&entries, &asks));
}

#[test]
fn a_request_that_is_refused_says_nothing_about_another_one() {
    let entries = Entries::default();
    let moves = created(&entries, b"a/", &shared(1), now());
    entries.change(&moves, |mine| mine.maybe.extend([2, 2]));
    entries.change(&moves, |mine| mine.is_not_on(2));
    assert!(!is_certain(&entries, &moves), "the other one may have moved it");
    entries.change(&moves, |mine| mine.is_not_on(2));
    assert!(is_certain(&entries, &moves));
}

#[test]
fn an_entry_that_is_read_is_noted_with_its_lease() {
    let entries = Entries::default();
    let known = created(&entries, b"a/", &shared(1), now());
    let mine = entries.get(&known).expect("it was noted");
    let read = Entry { modified: 9, ..entry_of(&known, &mine) };
    assert!(entries.note(&known, &read).is_certain());
    let moved = entries.note(&known, &Entry { lease: 2, ..read });
    assert_eq!((moved.lease.id(), moved.maybe, moved.modified), (1, vec![2], 9));
    let renamed = Entry { stored: b"a/other".to_vec(), ..entry_of(&known, &mine) };
    let unknown = entries.note(&known, &renamed);
    assert!(!unknown.is_certain() && unknown.lease.session().is_none(), "it is bound anew");
    assert!(entries.named(&[mine.stored]).is_empty());
}

#[test]
fn a_claim_that_does_not_read_the_answer_to_its_creation_is_doubted_too() {
    let (entries, begun) = (Entries::default(), now());
    let id = Id { line: b"a/".to_vec(), owner: OwnerSource::new().expect("random bytes").mint() };
    entries.begin(&id, &shared(1), Told::Waits, &[], begun);
    let later = |times| begun.plus(TTL * times);
    let doubted = |at| entries.doubt_unasked(1, TTL, at, 16).pop().map(|(_, mine)| mine);
    let unanswered = doubted(later(1)).expect("nobody reads the answer");
    entries.deleted(&id, &unanswered, None);
    assert!(entries.get(&id).is_some(), "the request may still come");
    let unanswered = doubted(later(2)).expect("it is looked at again");
    entries.deleted(&id, &unanswered, Some(&entry_of(&id, &unanswered)));
    let seen = doubted(later(3)).expect("it exists");
    assert_eq!((seen.created, seen.modified), (Some(7), 7), "so its deletion can be conditional");
    assert!(entries.grant(&id, Some(7)).is_none(), "the answer is read during the deletion");
    entries.deleted(&id, &seen, None);
    assert!(entries.get(&id).is_none());
}
