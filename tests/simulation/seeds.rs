//! Runs one seed after the other. No two holds overlap, whatever happens within the assumptions.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::plan::Plan;
use crate::world::{self, Flaw, Outcome};

/// The number of seeds if all tests run, at the scale of 1.
const SEEDS: u64 = 30;

/// The events that must happen in these worlds. Without them, the worlds prove nothing about them.
const SEEN: [&str; 11] = [
    "downgrades",
    "grants of all keys",
    "grants of one key",
    "grants of what was thrown away",
    "grants to readers",
    "grants to writers",
    "late writes refused",
    "leases over while a process stood still",
    "locks thrown away",
    "nested calls",
    "releases in the background",
];

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, and not {text:?}")))
}

/// Runs the worlds of `seeds` on all cores.
fn all(seeds: std::ops::RangeInclusive<u64>) -> Vec<Outcome> {
    let (next, outcomes) = (AtomicU64::new(*seeds.start()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    let outcome = world::run(Plan::of(seed), &Flaw::default(), false);
                    outcomes.lock().expect("no panic").push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no panic")
}

#[allow(clippy::print_stdout, reason = "the history is what was asked for")]
fn replay(seed: u64) {
    let plan = Plan::of(seed);
    println!("{plan:#?}");
    let outcome = world::run(plan, &Flaw::default(), true);
    println!("{}", outcome.text);
    println!("seed {seed}: {:?}, hash {:x}", outcome.counts, outcome.hash);
    assert!(outcome.verdict.is_good(), "seed {seed}: {:#?}", outcome.verdict.wrong);
}

#[test]
#[allow(clippy::print_stdout, reason = "the figures are wanted as well as the verdict")]
fn nobody_holds_beside_another() {
    if let Some(seed) = number("SIMULATION_SEED") {
        return replay(seed);
    }
    let count = number("SIMULATION_SEEDS").unwrap_or(SEEDS * lock_tests::scale());
    let first = number("SIMULATION_FIRST").unwrap_or(1);
    let mut outcomes = all(first..=first + count - 1);
    outcomes.sort_by_key(|outcome| outcome.seed);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (what, count) in outcomes.iter().flat_map(|outcome| &outcome.counts) {
        *counts.entry(what).or_default() += count;
    }
    let grants: usize =
        counts.iter().filter(|(what, _)| what.starts_with("grants")).map(|(_, count)| count).sum();
    let hash = outcomes.iter().fold(0_u64, |hash, outcome| hash.rotate_left(1) ^ outcome.hash);
    println!("{} seeds, {grants} grants: {counts:?}, hash {hash:x}", outcomes.len());
    let bad: Vec<_> = outcomes.iter().filter(|outcome| !outcome.verdict.is_good()).collect();
    for outcome in &bad {
        println!("SIMULATION_SEED={}: {}", outcome.seed, outcome.verdict.wrong[0]);
    }
    assert!(bad.is_empty(), "{} of {} seeds are bad, see above", bad.len(), outcomes.len());
    assert!(grants as u64 > 10 * count, "{grants} grants: this shows little");
    let missing: Vec<_> = SEEN.iter().filter(|what| !counts.contains_key(*what)).collect();
    assert!(missing.is_empty() || count < SEEDS, "{missing:?} never happened: this shows little");
}

#[test]
fn one_seed_has_one_history() {
    let hash = |seed| world::run(Plan::of(seed), &Flaw::default(), false).hash;
    for seed in [2, 3, 7, 11, 14, 19, 35, 1_000_003] {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(1), hash(2));
}
