use super::*;

const X: Mode = Mode::Exclusive;
const S: Mode = Mode::Shared;
const P: Mode = Mode::Permit { of: 2 };
const Q: Mode = Mode::Permit { of: 3 };

fn is_permit(mode: Mode) -> bool {
    matches!(mode, Mode::Permit { .. })
}

fn line(modes: &[Mode]) -> Line {
    let entry = |(at, mode): (usize, &Mode)| Entry {
        stored: vec![u8::try_from(at).expect("a few")],
        page: vec![u8::try_from(at).expect("a few")],
        created: i64::try_from(at).expect("a few"),
        modified: 9,
        lease: 1,
        mode: *mode,
        owner: None,
        record: None,
        kept: false,
        several: false,
    };
    Line { entries: modes.iter().enumerate().map(entry).collect(), revision: 9 }
}

#[test]
fn who_holds_follows_from_those_before() {
    let table: &[(&[Mode], usize, [bool; 3], Option<Mode>)] = &[
        (&[], 0, [true, true, true], None),
        (&[X], 1, [false, false, false], Some(P)),
        (&[S], 1, [false, true, false], Some(P)),
        (&[S, S, X, S], 2, [false, false, false], Some(P)),
        (&[X, S], 1, [false, false, false], Some(P)),
        (&[P], 1, [false, false, true], Some(X)),
        (&[P, P, P], 2, [false, false, false], Some(S)),
        // The lock of another program, which knows no permits, in between, before and behind.
        (&[P, X], 1, [false, false, false], Some(P)),
        (&[X, P], 1, [false, false, false], Some(P)),
        (&[P, X, P], 1, [false, false, false], Some(P)),
        (&[P, P, X], 2, [false, false, false], Some(P)),
        // Permits of another number.
        (&[Q, P], 1, [false, false, false], Some(P)),
        (&[Q, Q, P], 2, [false, false, false], Some(Q)),
        // A reader that waits.
        (&[P, S, S], 1, [false, false, false], Some(S)),
    ];
    for (modes, holding, admitted, conflict) in table {
        let line = line(modes);
        assert_eq!(line.holding(), *holding, "{modes:?}");
        assert_eq!([X, S, P].map(|mode| line.admits(mode)), *admitted, "{modes:?}");
        if let Some(mode) = conflict {
            assert!(line.conflict(*mode).is_some(), "{modes:?} {mode:?}");
        }
        let same = modes.first().copied().unwrap_or(X);
        let mixed = modes.iter().any(|mode| *mode != same) && modes.iter().any(|mode| is_permit(*mode));
        assert_eq!(line.conflict(same).is_some(), mixed, "{modes:?}");
    }
    assert!(line(&[P]).conflict(Mode::Permit { of: 3 }).is_some());
    assert!(line(&[S]).conflict(X).is_none() && line(&[X]).conflict(S).is_none());
}

#[test]
fn each_waits_for_the_fewest_before_it() {
    let table: &[(&[Mode], usize, &[i64])] = &[
        (&[X, X, X], 2, &[1]),
        (&[X, X, X], 1, &[0]),
        (&[S, X, S, S], 3, &[1]),
        (&[X, S, S], 2, &[0]),
        (&[S, S, X], 2, &[1]),
        (&[P, P, P], 2, &[0, 1]),
        (&[P, P, P, P, P], 4, &[2, 3]),
        (&[Q, Q, Q, Q, Q], 4, &[1, 2, 3]),
        // The lock of another program, and permits of another number.
        (&[P, X, P, P], 3, &[1]),
        (&[Q, Q, P, Q, Q], 4, &[2]),
    ];
    for (modes, place, blockers) in table {
        let line = line(modes);
        let found = line.blockers(*place, modes[*place]).iter().map(|entry| entry.created);
        assert_eq!(found.collect::<Vec<_>>(), *blockers, "{modes:?} at {place}");
    }
}

/// What may happen to an entry while another waits behind it.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Stays,
    Goes,
    /// Its holder turns from a writer into a reader.
    Shares,
}

/// Returns whether an entry of `mode` behind `before` could hold the key after these fates.
fn is_served_after(before: &[Mode], fates: &[Fate], mode: Mode) -> bool {
    let after = before.iter().zip(fates).filter(|(_, fate)| **fate != Fate::Goes);
    let after: Vec<Mode> =
        after.map(|(mode, fate)| if (*mode, *fate) == (X, Fate::Shares) { S } else { *mode }).collect();
    line(&after).is_served(after.len(), mode)
}

/// Whatever happens to the others, no waiter in any line of up to five gets the key without being told of a change of
/// those that it waits for: of their end, and a reader also of another change.
#[test]
fn no_waiter_is_served_without_being_told() {
    let (kinds, all_fates) = ([X, S, P, Q], [Fate::Stays, Fate::Goes, Fate::Shares]);
    for (length, mode) in (0..=4_u32).flat_map(|length| kinds.map(|mode| (length, mode))) {
        for number in 0..kinds.len().pow(length) {
            let before: Vec<Mode> = (0..length).map(|at| kinds[number / kinds.len().pow(at) % 4]).collect();
            let line = line(&before);
            if line.is_served(before.len(), mode) {
                continue;
            }
            let watched = line.blockers(before.len(), mode);
            assert!(!watched.is_empty(), "{before:?} {mode:?}");
            for number in 0..all_fates.len().pow(length) {
                let fates: Vec<Fate> =
                    (0..length).map(|at| all_fates[number / all_fates.len().pow(at) % 3]).collect();
                let told = watched.iter().any(|entry| {
                    let at = usize::try_from(entry.created).expect("a place");
                    fates[at] == Fate::Goes || (mode, before[at], fates[at]) == (S, X, Fate::Shares)
                });
                assert!(told || !is_served_after(&before, &fates, mode), "{before:?} {mode:?}");
            }
        }
    }
}

/// In a line of one semaphore, the end of an entry is told to as many as there are permits, at most.
#[test]
fn one_release_is_told_to_as_many_as_there_are_permits() {
    for of in 1..=20_u32 {
        let line = line(&[Mode::Permit { of }; 60]);
        let waiting = of as usize..60;
        let of_each = waiting.map(|place| line.blockers(place, Mode::Permit { of }));
        let mut told = [0; 60];
        for entry in of_each.flatten() {
            told[usize::try_from(entry.created).expect("a place")] += 1;
        }
        assert_eq!(told.iter().max(), Some(&of), "{told:?}");
    }
}

/// Two that exclude each other never hold together, in any line of up to six. Whoever holds stands at the front.
#[test]
fn no_two_holders_exclude_each_other() {
    let kinds = [X, S, P, Q];
    for number in 0..kinds.len().pow(6) {
        let modes: Vec<Mode> =
            (0..6_u32).map(|at| kinds[number / kinds.len().pow(at) % kinds.len()]).collect();
        let line = line(&modes);
        let holding: Vec<usize> = (0..6).filter(|at| line.is_served(*at, modes[*at])).collect();
        let first = modes[0];
        let room = match first {
            Mode::Exclusive => 1,
            Mode::Shared => 6,
            Mode::Permit { of } => of as usize,
        };
        let fine = holding.len() <= room && holding.iter().all(|at| modes[*at] == first);
        assert!(fine && !holding.is_empty(), "{modes:?}: {holding:?}");
        assert_eq!(holding, (0..line.holding()).collect::<Vec<_>>(), "{modes:?}");
    }
}

/// An entry that holds the key goes on holding it, whoever leaves and whoever joins the line.
#[test]
fn nobody_loses_the_key_to_the_line() {
    let modes = [X, S, S, X, S];
    for start in 0..1_u32 << modes.len() {
        let there = |set: u32| -> Vec<(usize, Mode)> {
            modes.iter().copied().enumerate().filter(|(at, _)| set & (1 << at) != 0).collect()
        };
        let served = |set: u32| -> Vec<usize> {
            let all = there(set);
            let line = line(&all.iter().map(|(_, mode)| *mode).collect::<Vec<_>>());
            (0..all.len()).filter(|at| line.is_served(*at, all[*at].1)).map(|at| all[at].0).collect()
        };
        for gone in 0..modes.len() {
            let after = served(start & !(1 << gone));
            assert!(served(start).iter().all(|at| *at == gone || after.contains(at)), "{start:b} {gone}");
        }
        // Two holders, only if both share.
        let held = served(start);
        assert!(held.len() < 2 || held.iter().all(|at| modes[*at] == S), "{start:b}: {held:?}");
    }
}

#[test]
fn an_entry_is_its_owners_by_its_value() {
    let owners = crate::owner::OwnerSource::new().expect("random bytes");
    let key = crate::key::Key::new("k").expect("a key");
    let entry = |owner| Entry {
        stored: b"k/name".to_vec(),
        page: keyspace::page(&key, owner),
        owner: Some(owner),
        ..line(&[X]).entries.remove(0)
    };
    let (one, other) = (entry(owners.mint()), entry(owners.mint()));
    let own = Own { page: one.page.clone(), stored: Some(b"k/name".to_vec()) };
    assert!(own.is(&one) && !own.is(&other), "another owner may use the name later");
    let moved = Entry { stored: b"k/other".to_vec(), ..one.clone() };
    assert!(own.is(&moved) && Own { stored: None, ..own.clone() }.is(&moved));
    let overwritten = Entry { page: b"k/name".to_vec(), owner: None, ..one };
    assert!(own.is(&overwritten) && !Own { stored: None, ..own }.is(&overwritten));
}
