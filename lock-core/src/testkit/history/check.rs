//! Finds contradictions in a history.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::{Hold, Violation};
use crate::backend::Mode;

/// Checks each key for overlapping holds that exclude each other, and for fencing tokens out of order, in O(n log n).
///
/// Holds may overlap if all are shared. They may also overlap if all are permits of semaphores of the same size, and
/// there are no more holds than this size. A hold has the key alone if it is exclusive or has the only permit. The
/// token of such a hold must be larger than all tokens granted before its request. The token of any other hold must be
/// larger than the tokens of earlier holds that had the key alone. No two holds may have the same token.
///
/// # Errors
/// Returns the first violation.
pub fn check(holds: &[Hold]) -> Result<(), Violation> {
    let mut keys: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        keys.entry(&hold.key).or_default().push(hold);
    }
    for mut holds in keys.into_values() {
        holds.sort_by_key(|hold| hold.acquired);
        overlap(&holds)?;
        token_order(&holds)?;
        same_token(&holds)?;
    }
    Ok(())
}

/// Finds overlaps. `by_answer` is sorted by the time at which the grants were answered.
fn overlap(by_answer: &[&Hold]) -> Result<(), Violation> {
    // The current holds; the hold that ends first is on top. All of them have the same mode, because two current holds
    // of different modes are a violation.
    let mut there: BinaryHeap<Reverse<(Duration, usize)>> = BinaryHeap::new();
    for (number, hold) in by_answer.iter().enumerate() {
        // A hold that ended before its grant was answered is not counted, because it was never certain.
        if hold.ended <= hold.acquired {
            continue;
        }
        while there.peek().is_some_and(|Reverse((ended, _))| *ended <= hold.acquired) {
            there.pop();
        }
        if let Some(Reverse((_, first))) = there.peek() {
            beside(by_answer[*first], hold)?;
        }
        there.push(Reverse((hold.ended, number)));
        if let Mode::Permit { of } = hold.mode
            && there.len() > usize::try_from(of).unwrap_or(usize::MAX)
        {
            let mut all: Vec<_> = there.into_iter().map(|Reverse((_, number))| number).collect();
            all.sort_unstable();
            return Err(Violation::TooMany {
                holds: all.into_iter().map(|at| by_answer[at].clone()).collect(),
            });
        }
    }
    Ok(())
}

fn beside(first: &Hold, second: &Hold) -> Result<(), Violation> {
    if first.mode == second.mode && first.mode != Mode::Exclusive {
        return Ok(());
    }
    Err(Violation::Overlap { first: Box::new(first.clone()), second: Box::new(second.clone()) })
}

/// Returns whether the mode allows no other holder.
fn is_alone(hold: &Hold) -> bool {
    matches!(hold.mode, Mode::Exclusive | Mode::Permit { of: 1 })
}

/// Checks the order of the tokens. `by_answer` is sorted by the time at which the grants were answered.
fn token_order(by_answer: &[&Hold]) -> Result<(), Violation> {
    let mut by_call = by_answer.to_vec();
    by_call.sort_by_key(|hold| hold.asked);
    let mut answered = by_answer.iter().filter(|hold| hold.fence.is_some()).peekable();
    let (mut largest, mut largest_alone): (Option<&Hold>, Option<&Hold>) = (None, None);
    for second in by_call.into_iter().filter(|hold| hold.fence.is_some()) {
        while let Some(first) = answered.next_if(|first| first.acquired < second.asked) {
            largest = Some(larger(largest, first));
            if is_alone(first) {
                largest_alone = Some(larger(largest_alone, first));
            }
        }
        let before = if is_alone(second) { largest } else { largest_alone };
        if let Some(first) = before.filter(|first| first.fence >= second.fence) {
            return Err(out_of_order(first, second));
        }
    }
    Ok(())
}

fn larger<'a>(largest: Option<&'a Hold>, hold: &'a Hold) -> &'a Hold {
    largest.filter(|largest| largest.fence >= hold.fence).unwrap_or(hold)
}

/// Checks that no two holds have the same token, even if the order of the two holds in time is uncertain.
fn same_token(holds: &[&Hold]) -> Result<(), Violation> {
    let mut fenced: Vec<_> = holds.iter().filter(|hold| hold.fence.is_some()).collect();
    fenced.sort_by_key(|hold| hold.fence);
    match fenced.windows(2).find(|pair| pair[0].fence == pair[1].fence) {
        Some(pair) => Err(out_of_order(pair[0], pair[1])),
        None => Ok(()),
    }
}

fn out_of_order(first: &Hold, second: &Hold) -> Violation {
    Violation::TokenOrder { first: Box::new(first.clone()), second: Box::new(second.clone()) }
}
