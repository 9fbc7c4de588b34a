//! Visits every state that a model can reach, breadth first.

use std::collections::HashSet;
use std::fmt::{self, Debug, Write as _};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A model that can be explored.
pub(crate) trait Model {
    type State: Clone + Hash + Debug;
    type Step: Copy + Debug;

    /// Returns the initial state.
    fn initial(&self) -> Self::State;

    /// Adds the steps that are possible in a state to `steps`.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Self::Step>);

    /// Returns the state after a step.
    fn after(&self, state: &Self::State, step: Self::Step) -> Self::State;

    /// Returns the property that does not hold in a state, if there is one.
    fn broken(&mut self, state: &Self::State) -> Option<&'static str>;
}

/// The result of an exploration.
#[derive(Debug)]
pub(crate) struct Seen<M: Model> {
    /// The number of states.
    pub(crate) states: usize,
    /// The number of steps to the furthest state.
    pub(crate) depth: usize,
    /// Whether all states were visited.
    pub(crate) complete: bool,
    /// The first property that did not hold, and one of the shortest paths to that state.
    pub(crate) broken: Option<(&'static str, Trace<M>)>,
}

/// The steps from the initial state to another.
#[derive(Debug)]
pub(crate) struct Trace<M: Model> {
    steps: Vec<M::Step>,
    end: M::State,
}

impl<M: Model> fmt::Display for Trace<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(text, "  {:2} {step:?}", number + 1)?;
        }
        write!(f, "{text}  => {:?}", self.end)
    }
}

/// A fast hash for data that is not secret. 64 bits of it identify a state: among a million states the chance that any
/// two have the same hash is 3 in 100 million.
#[derive(Default)]
struct Mix(u64);

impl Mix {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        // The upper bits are mixed best, but a table uses the lower bits first.
        (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.add(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }
}

/// Returns a number that identifies a state.
pub(crate) fn fingerprint(state: &impl Hash) -> u64 {
    let mut mix = Mix::default();
    state.hash(&mut mix);
    mix.finish()
}

/// The fingerprints seen so far.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints(HashSet<u64, BuildHasherDefault<Mix>>);

impl Fingerprints {
    /// Adds a fingerprint. Returns whether it is new.
    pub(crate) fn add(&mut self, fingerprint: u64) -> bool {
        self.0.insert(fingerprint)
    }
}

/// The previous state, and the step from it.
struct Link<S> {
    from: u32,
    step: Option<S>,
}

/// Visits every state, at most `limit` of them. Stops at the first state in which a property does not hold.
pub(crate) fn explore<M: Model>(model: &mut M, limit: usize) -> Seen<M> {
    let mut seen = Fingerprints::default();
    let first = model.initial();
    seen.add(fingerprint(&first));
    let mut links = vec![Link { from: 0, step: None }];
    if let Some(what) = model.broken(&first) {
        let trace = Trace { steps: Vec::new(), end: first };
        return Seen { states: 1, depth: 0, complete: false, broken: Some((what, trace)) };
    }
    let (mut depth, mut steps) = (0, Vec::new());
    let mut frontier = vec![(0_u32, first)];
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (from, state) in frontier {
            steps.clear();
            model.steps(&state, &mut steps);
            for &step in &steps {
                let after = model.after(&state, step);
                if !seen.add(fingerprint(&after)) {
                    continue;
                }
                let number = u32::try_from(links.len()).expect("BUG: memory ends before the numbers do");
                links.push(Link { from, step: Some(step) });
                if let Some(what) = model.broken(&after) {
                    let trace = Trace { steps: way(&links, number), end: after };
                    let broken = Some((what, trace));
                    return Seen { states: links.len(), depth: depth + 1, complete: false, broken };
                }
                if links.len() >= limit {
                    return Seen { states: links.len(), depth: depth + 1, complete: false, broken: None };
                }
                next.push((number, after));
            }
        }
        depth += usize::from(!next.is_empty());
        frontier = next;
    }
    Seen { states: links.len(), depth, complete: true, broken: None }
}

/// Returns the steps from the initial state to another.
fn way<S: Copy>(links: &[Link<S>], mut number: u32) -> Vec<S> {
    let mut steps = Vec::new();
    while let Link { from, step: Some(step) } = &links[number as usize] {
        steps.push(*step);
        number = *from;
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter that wraps around.
    struct Round {
        bad: Option<u8>,
    }

    impl Model for Round {
        type State = u8;
        type Step = u8;

        fn initial(&self) -> u8 {
            0
        }

        fn steps(&self, _: &u8, steps: &mut Vec<u8>) {
            steps.extend([1, 3]);
        }

        fn after(&self, state: &u8, step: u8) -> u8 {
            (state + step) % 10
        }

        fn broken(&mut self, state: &u8) -> Option<&'static str> {
            (Some(*state) == self.bad).then_some("bad")
        }
    }

    #[test]
    fn every_state_is_seen_and_the_shortest_way_is_told() {
        let all = explore(&mut Round { bad: None }, 100);
        assert!(all.complete && all.broken.is_none());
        assert_eq!((all.states, all.depth), (10, 4), "8 = 3 + 3 + 1 + 1 is the furthest");
        let bad = explore(&mut Round { bad: Some(6) }, 100);
        let (what, trace) = bad.broken.expect("6 is reached");
        assert_eq!((what, trace.steps.as_slice(), trace.end), ("bad", &[3, 3][..], 6));
        let cut = explore(&mut Round { bad: None }, 5);
        assert!(!cut.complete && cut.broken.is_none() && cut.states == 5);
    }
}
