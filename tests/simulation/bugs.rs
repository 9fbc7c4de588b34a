//! The controls: bugs that a lock must not have, planted one at a time. Each is found within a hundred seeds, which is
//! what makes a run without findings mean something.

use std::rc::Rc;

use crate::plan::Plan;
use crate::planted::Mistake;
use crate::store;
use crate::world::{self, Flaw};

/// Within how many seeds a bug must be found.
const SEEDS: u64 = 100;

/// A flaw in the scripts that have `of`: wherever the first of a pair stands, the second is run.
fn script(of: &'static str, pairs: &'static [(&str, &str)]) -> Flaw {
    let patch = move |mut text: String| {
        if text.contains(of) {
            for (from, to) in pairs {
                assert!(text.contains(from), "the script `{of}` no longer has `{from}`: plant this bug anew");
                text = text.replace(from, to);
            }
        }
        text
    };
    Flaw { patch: Some(Rc::new(patch)), ..Flaw::default() }
}

fn client(mistake: Mistake) -> Flaw {
    Flaw { store: store::Kind::Mistaken(mistake), ..Flaw::default() }
}

#[allow(clippy::print_stdout, reason = "what was found, and in which seed")]
fn is_found(name: &str, flaw: &Flaw) {
    for seed in 1..=SEEDS {
        let outcome = world::run(Plan::of(seed), flaw, false);
        if let Some(wrong) = outcome.verdict.wrong.first() {
            println!("{name}: seed {seed}: {} findings, the first: {wrong}", outcome.verdict.wrong.len());
            return;
        }
    }
    panic!("{name}: not found in {SEEDS} seeds");
}

const ACQUIRE: &str = "-- Grants a lock";
const GATE: &str = "4f0c1b7e9a6d42c58e13d7b2605fa9c4";
const RENEW: &str = "-- Extends locks";
const RELEASE: &str = "-- Frees a lock";

#[test]
fn a_renewal_without_a_look_at_the_token() {
    let flaw = script(RENEW, &[("if held:find(ARGV[2 * i - 1], 1, true) == 1 then", "if true then")]);
    is_found("no token check", &flaw);
}

#[test]
fn a_release_by_del() {
    const DEL: &str = "do return redis.call('DEL', unpack(KEYS)) end if true then";
    is_found("DEL release", &script(RELEASE, &[("if not ARGV[2] then", DEL)]));
}

#[test]
fn a_lock_without_a_ttl() {
    let flaw = script(ACQUIRE, &[("ARGV[2], 'NX', 'PX', ARGV[3])", "ARGV[2], 'NX')")]);
    is_found("no TTL", &flaw);
}

#[test]
fn a_lease_that_counts_from_the_answer() {
    is_found("validity from reply time", &client(Mistake::ValidityFromReply));
}

#[test]
fn a_lease_without_drift() {
    is_found("no drift", &client(Mistake::NoDrift));
}

#[test]
fn a_renewal_that_makes_the_lock_again() {
    const AGAIN: &str = "elseif not held then
    redis.call('SET', key, ARGV[2 * i - 1] .. ' x', 'PX', ARGV[2 * i])
    answers[i] = 1";
    is_found("renew re-creates", &script(RENEW, &[(MISSING, AGAIN)]));
}

/// In the script of renewals: what it says of a key that is gone.
const MISSING: &str = "elseif not held then\n    answers[i] = 0";

#[test]
fn a_renewal_that_is_always_granted() {
    let flaw = script(RENEW, &[(MISSING, "elseif not held then\n    answers[i] = 1")]);
    is_found("renewal below a majority", &flaw);
}

#[test]
fn a_fencing_token_that_only_counts() {
    let patch = |text: String| {
        text.replace("math.max(now, last + 1)", "last + 1")
            .replace("math.max(now, tonumber(ARGV[4]) + 1)", "tonumber(ARGV[4]) + 1")
    };
    is_found("fence INCR after flush", &Flaw { patch: Some(Rc::new(patch)), ..Flaw::default() });
}

#[test]
fn a_retry_with_a_new_token() {
    is_found("retry with new token", &client(Mistake::RetryWithNewToken));
}

#[test]
fn no_quarantine() {
    is_found("quarantine off", &script(GATE, &[("if now < till then", "if false then")]));
}

#[test]
fn an_acquire_that_comes_late() {
    let pairs =
        &[("if now > tonumber(ARGV[4]) then", "if false then"), (" and now <= tonumber(ARGV[4])", "")];
    is_found("late acquire", &script(LATE, pairs));
}

/// Only a voter's script of one key.
const LATE: &str = "-- The free lock of a voter";

/// Redlock as it is described elsewhere.
#[test]
fn no_gate() {
    is_found("gate off", &Flaw { store: store::Kind::Ungated, ..Flaw::default() });
}
