//! Tests [`check()`] with fixed cases, and compares it with a simple checker that looks at every pair of holds.

use proptest::prelude::*;

use super::*;

fn hold(key: &str, asked: u64, acquired: u64, ended: u64, fence: u64) -> Hold {
    let [asked, acquired, ended] = [asked, acquired, ended].map(Duration::from_millis);
    let fence = Some(FencingToken::new(fence));
    Hold { worker: 0, key: key.to_owned(), mode: Mode::Exclusive, asked, acquired, ended, fence }
}

fn of(mode: Mode, acquired: u64, ended: u64, fence: u64) -> Hold {
    Hold { mode, ..hold("k", acquired, acquired, ended, fence) }
}

fn is_overlap(holds: &[Hold]) -> bool {
    matches!(check(holds), Err(Violation::Overlap { .. }))
}

fn is_token_order(holds: &[Hold]) -> bool {
    matches!(check(holds), Err(Violation::TokenOrder { .. }))
}

#[test]
fn what_is_certain_is_found() {
    assert!(is_overlap(&[hold("k", 0, 1, 10, 1), hold("k", 2, 9, 12, 2)]));
    assert!(is_overlap(&[hold("k", 0, 1, 100, 1), hold("k", 2, 2, 3, 2), hold("j", 0, 1, 2, 9)]));
    assert!(is_token_order(&[hold("k", 0, 1, 2, 7), hold("k", 3, 4, 5, 6)]));
    assert!(is_token_order(&[hold("k", 0, 1, 2, 7), hold("k", 0, 4, 5, 7)]), "one token twice");
    // A token is compared with the largest of all earlier tokens, and not only with the previous token.
    assert!(is_token_order(&[hold("k", 0, 1, 2, 9), hold("k", 2, 3, 4, 3), hold("k", 5, 6, 7, 4)]));
}

#[test]
fn what_is_not_certain_is_no_violation() {
    assert_eq!(check(&[hold("k", 0, 1, 10, 1), hold("j", 0, 1, 10, 1)]), Ok(()), "two keys");
    assert_eq!(check(&[hold("k", 0, 1, 10, 1), hold("k", 2, 10, 12, 2)]), Ok(()), "one after the other");
    assert_eq!(
        check(&[hold("k", 0, 20, 10, 1), hold("k", 2, 5, 30, 2)]),
        Ok(()),
        "answered after its deadline"
    );
    assert_eq!(check(&[hold("k", 0, 5, 5, 2), hold("k", 1, 5, 6, 1)]), Ok(()), "calls at the same time");
    assert_eq!(
        check(&[hold("k", 0, 5, 6, 2), hold("k", 5, 6, 7, 1)]),
        Ok(()),
        "asked for in the same instant"
    );
    let unfenced = Hold { fence: None, ..hold("k", 3, 4, 5, 0) };
    assert_eq!(check(&[hold("k", 0, 1, 2, 7), unfenced, hold("k", 6, 7, 8, 8)]), Ok(()));
    assert_eq!(check(&[]), Ok(()));
}

#[test]
fn readers_are_together_and_writers_alone() {
    use Mode::{Exclusive, Permit, Shared};
    assert_eq!(check(&[of(Shared, 1, 9, 2), of(Shared, 2, 5, 3), of(Shared, 6, 8, 1)]), Ok(()));
    assert!(is_overlap(&[of(Shared, 1, 9, 1), of(Shared, 2, 3, 2), of(Exclusive, 5, 6, 3)]));
    assert!(is_overlap(&[of(Exclusive, 1, 9, 1), of(Shared, 5, 6, 2)]));
    // The last hold overlaps with the longest hold, and not with the hold that began just before it.
    assert!(is_overlap(&[
        of(Shared, 1, 99, 1),
        of(Shared, 2, 3, 2),
        of(Shared, 4, 5, 3),
        of(Exclusive, 50, 51, 4)
    ]));
    assert!(is_overlap(&[of(Shared, 1, 9, 1), of(Permit { of: 3 }, 5, 6, 2)]));
    assert!(is_overlap(&[of(Permit { of: 2 }, 1, 9, 1), of(Permit { of: 3 }, 5, 6, 2)]));
}

#[test]
fn there_are_as_many_permits_as_there_are() {
    let permit = |acquired, ended, fence| of(Mode::Permit { of: 2 }, acquired, ended, fence);
    assert_eq!(check(&[permit(1, 9, 2), permit(2, 5, 3), permit(5, 8, 1)]), Ok(()));
    let Err(Violation::TooMany { holds }) = check(&[permit(1, 9, 1), permit(4, 6, 3), permit(2, 5, 2)])
    else {
        panic!("three of two");
    };
    assert_eq!(holds, [permit(1, 9, 1), permit(2, 5, 2), permit(4, 6, 3)]);
    let only = |acquired, ended, fence| of(Mode::Permit { of: 1 }, acquired, ended, fence);
    assert!(matches!(check(&[only(1, 9, 1), only(2, 3, 2)]), Err(Violation::TooMany { .. })));
    assert!(is_token_order(&[only(1, 2, 2), only(3, 4, 1)]), "the only permit is alone");
}

#[test]
fn tokens_of_readers_are_ordered_against_writers_alone() {
    use Mode::{Exclusive, Shared};
    assert_eq!(check(&[of(Shared, 1, 2, 9), of(Shared, 3, 4, 8)]), Ok(()), "among readers");
    assert!(is_token_order(&[of(Exclusive, 1, 2, 9), of(Shared, 3, 4, 8)]), "a reader after a writer");
    assert!(is_token_order(&[of(Shared, 1, 2, 9), of(Exclusive, 3, 4, 8)]), "a writer after a reader");
    assert!(
        is_token_order(&[of(Exclusive, 1, 2, 9), of(Shared, 3, 4, 10), of(Shared, 5, 6, 8)]),
        "not the last"
    );
    assert!(is_token_order(&[of(Shared, 1, 4, 9), of(Shared, 2, 3, 9)]), "one token twice");
}

/// Generates a correct history. The holds follow one another. A hold may be requested while an earlier hold lasts.
fn correct() -> impl Strategy<Value = Vec<Hold>> {
    proptest::collection::vec((1..5u64, 1..20u64, 0..30u64), 2..60).prop_map(|steps| {
        let mut time = 100;
        let mut holds = Vec::new();
        for (number, (gap, length, wait)) in (1..).zip(steps) {
            let acquired = time + gap;
            time = acquired + length;
            holds.push(hold("k", acquired - wait, acquired, time, number));
        }
        holds
    })
}

/// Generates an arbitrary history. Few such histories are correct.
fn any_history() -> impl Strategy<Value = Vec<Hold>> {
    let mode = prop_oneof![
        2 => Just(Mode::Exclusive),
        4 => Just(Mode::Shared),
        4 => Just(Mode::Permit { of: 3 }),
        1 => Just(Mode::Permit { of: 1 }),
    ];
    // A history has one or two modes. With more modes, nearly every history would overlap at its beginning.
    let modes = proptest::collection::vec(mode, 1..3);
    let times = (0..200u64, 0..6u64, 0..25u64, proptest::option::weighted(0.5, 0..40u64), any::<bool>());
    (modes, proptest::collection::vec(times, 1..14)).prop_map(|(modes, times)| {
        times
            .into_iter()
            .map(|(asked, wait, length, fence, which)| {
                let mode = modes[usize::from(which) % modes.len()];
                // The tokens are mostly in order. Otherwise hardly any history would be correct.
                let fence = fence.map(|by| FencingToken::new(asked * 10 + by));
                Hold { mode, fence, ..hold("k", asked, asked + wait, (asked + wait + length).max(2) - 2, 0) }
            })
            .collect()
    })
}

/// Returns whether holds that exclude each other overlap. An overlap begins when a hold begins, so only these times are
/// checked.
fn overlaps(holds: &[Hold]) -> bool {
    let definite: Vec<_> = holds.iter().filter(|hold| hold.ended > hold.acquired).collect();
    definite.iter().any(|hold| {
        let there = |other: &&&Hold| other.acquired <= hold.acquired && hold.acquired < other.ended;
        let modes: Vec<Mode> = definite.iter().filter(there).map(|hold| hold.mode).collect();
        match modes[0] {
            Mode::Exclusive => modes.len() > 1,
            Mode::Shared => modes.iter().any(|mode| *mode != Mode::Shared),
            Mode::Permit { of } => modes.len() > of as usize || modes.iter().any(|mode| *mode != modes[0]),
        }
    })
}

/// Returns whether two tokens contradict the order in time.
fn tokens_out_of_order(holds: &[Hold]) -> bool {
    let alone = |hold: &Hold| matches!(hold.mode, Mode::Exclusive | Mode::Permit { of: 1 });
    let fenced: Vec<_> = holds.iter().filter(|hold| hold.fence.is_some()).collect();
    fenced.iter().enumerate().any(|(number, first)| {
        fenced.iter().enumerate().any(|(other, second)| {
            let later = first.acquired < second.asked && (alone(first) || alone(second));
            number != other && (later && first.fence >= second.fence || first.fence == second.fence)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_a_comparison_of_all_with_all(holds in any_history()) {
        let (overlaps, out_of_order) = (overlaps(&holds), tokens_out_of_order(&holds));
        match check(&holds) {
            Ok(()) => prop_assert!(!overlaps && !out_of_order),
            Err(Violation::Overlap { .. } | Violation::TooMany { .. }) => prop_assert!(overlaps),
            Err(Violation::TokenOrder { .. }) => prop_assert!(!overlaps && out_of_order),
        }
    }
}

proptest! {
    #[test]
    fn a_correct_history_passes_in_any_order(holds in correct().prop_shuffle()) {
        prop_assert_eq!(check(&holds), Ok(()));
    }

    #[test]
    fn a_planted_overlap_is_found(
        (mut holds, seed) in (correct(), any::<proptest::sample::Index>())
    ) {
        let at = seed.index(holds.len() - 1);
        holds[at].ended = holds[at + 1].acquired + Duration::from_nanos(1);
        prop_assert!(is_overlap(&holds));
    }

    #[test]
    fn a_swapped_token_is_found((mut holds, seed) in (correct(), any::<proptest::sample::Index>())) {
        let at = seed.index(holds.len() - 1);
        // The order is certain only if the later hold was requested after the earlier grant was answered.
        holds[at + 1].asked = holds[at].acquired + Duration::from_nanos(1);
        let (first, second) = (holds[at].fence, holds[at + 1].fence);
        (holds[at].fence, holds[at + 1].fence) = (second, first);
        prop_assert!(is_token_order(&holds));
    }
}
