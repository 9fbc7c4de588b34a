//! The controls: bugs that a lock must not have, planted one at a time. Each must be found within a hundred seeds, so
//! that a run without findings means something. The check that finds a bug is part of the control. The checks of the
//! users find every bug that harms a lock in use. The checks on the servers find a bug that harms no user yet, or no
//! user that could notice.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::check::Oracle;
use crate::client::Lapse;
use crate::plan::{Asks, Harm, Plan};
use crate::planted::Mistake;
use crate::world::{self, Flaw, Outcome};
use crate::{single, store};

/// The number of seeds within which a bug must be found.
const SEEDS: u64 = 100;

/// The seeds that found bugs which need many worlds. These seeds come first. The others follow if these find nothing
/// any more.
const LIKELY: [(&str, u64); 8] = [
    ("marker not looked at", 11),
    ("loss of one is none of all", 9),
    ("fence INCR after flush", 8),
    ("a part of several keys", 7),
    ("clock without pauses", 4),
    ("no TTL", 3),
    ("gate off", 3),
    ("reader's lease not renewed", 3),
];

fn seeds(bug: &str) -> impl Iterator<Item = u64> + use<> {
    let likely = LIKELY.iter().find(|(name, _)| *name == bug).map(|(_, seed)| *seed);
    likely.into_iter().chain((1..=SEEDS).filter(move |seed| Some(*seed) != likely))
}

/// Plants a flaw in the scripts that contain `of`: replaces the first text of each pair by the second.
fn script(of: &'static str, pairs: &'static [(&str, &str)]) -> Flaw {
    let planted = Rc::new(Cell::new(false));
    let found = Rc::clone(&planted);
    let patch = move |mut text: String| {
        if text.contains(of) {
            for (from, to) in pairs {
                assert!(text.contains(from), "the script `{of}` no longer has `{from}`: plant this bug anew");
                text = text.replace(from, to);
            }
            found.set(true);
        }
        text
    };
    Flaw { patch: Some(Rc::new(patch)), planted: Some(planted), ..Flaw::default() }
}

fn client(mistake: Mistake) -> Flaw {
    Flaw { store: store::Kind::Mistaken(mistake), ..Flaw::default() }
}

fn lapse(lapse: Lapse) -> Flaw {
    Flaw { lapse, ..Flaw::default() }
}

/// Checks that the flaw is found in worlds with one exclusive key and the usual faults.
fn is_found(name: &str, flaw: &Flaw, by: Oracle) {
    is_found_in((Asks::Exclusive, Harm::Usual), name, flaw, by);
}

/// Checks that the named oracle finds the flaw, and not just any oracle. If the oracle is [`Oracle::Servers`],
/// [`Oracle::Majority`] or [`Oracle::Remains`], no other oracle found anything in the first worlds (in a hundred for
/// `no token check` and `renew re-creates`). The reason is that a majority and its quarantine hide the errors of one
/// server.
fn is_found_in((asks, harm): (Asks, Harm), name: &str, flaw: &Flaw, by: Oracle) {
    let worlds = seeds(name).map(|seed| {
        let outcome = world::run(Plan::with(seed, asks, harm), flaw, false);
        let is_planted = flaw.planted.as_ref().is_none_or(|planted| planted.get());
        assert!(
            is_planted,
            "{name}: no script of world {seed} was changed, so that nothing here can be found"
        );
        outcome
    });
    is_found_by(name, by, worlds);
}

#[allow(clippy::print_stdout, reason = "what was found, and in which seed")]
fn is_found_by(name: &str, by: Oracle, worlds: impl Iterator<Item = Outcome>) {
    let mut others = BTreeSet::new();
    for Outcome { seed, verdict, .. } in worlds {
        if let Some(wrong) = verdict.wrong.iter().find(|wrong| wrong.by == by) {
            println!("{name}: seed {seed}: {wrong}");
            return;
        }
        others.extend(verdict.wrong.iter().map(|wrong| wrong.by));
    }
    panic!("{name}: not found by {by:?} in {SEEDS} seeds, only by {others:?}");
}

const ACQUIRE: &str = "-- Grants a lock";
const GATE: &str = "-- The gate before an acquire script";
const RENEW: &str = "-- Extends the leases of locks";
const FENCE: &str = "-- Makes the fencing token";
const RELEASE: &str = "-- Releases a lock if";
/// The part of the voter's script for free locks, which makes most grants.
const FREE: &str = "-- Grants a free lock on a voter";

#[test]
fn a_renewal_without_a_look_at_the_token() {
    const TOKEN: &str = "if type(held) == 'string' and held:find(token, 1, true) == 1 then";
    let flaw = script(RENEW, &[(TOKEN, "if type(held) == 'string' and held ~= '' then")]);
    is_found("no token check", &flaw, Oracle::Servers);
}

#[test]
fn a_release_by_del() {
    is_found(
        "DEL release",
        &script(RELEASE, &[("if held == ARGV[1] then", "if held ~= 0 then")]),
        Oracle::Overlap,
    );
}

#[test]
fn a_lock_without_a_ttl() {
    let flaw = script(FREE, &[("ARGV[2], 'NX', 'PX', ARGV[3])", "ARGV[2], 'NX')")]);
    is_found("no TTL", &flaw, Oracle::Remains);
}

#[test]
fn a_lease_that_counts_from_the_answer() {
    is_found("validity from reply time", &client(Mistake::ValidityFromReply), Oracle::Overlap);
}

#[test]
fn a_lease_without_drift() {
    is_found("no drift", &client(Mistake::NoDrift), Oracle::Overlap);
}

#[test]
fn a_renewal_that_makes_the_lock_again() {
    const AGAIN: &str = "elseif held == '' then
    redis.call('SET', key, owner .. ' x', 'PX', ARGV[2 * i])
    answers[i] = 1
  elseif type(held) == 'string' then
    answers[i] = 0";
    is_found("renew re-creates", &script(RENEW, &[(MISSING, AGAIN)]), Oracle::Servers);
}

/// The answer of the renewal script for a missing key.
const MISSING: &str = "elseif type(held) == 'string' then\n    answers[i] = 0";

#[test]
fn a_renewal_that_is_always_granted() {
    let flaw = script(
        RENEW,
        &[(
            MISSING,
            "elseif held == '' then\n    answers[i] = 1\n  elseif type(held) == 'string' then\n    answers[i] = 0",
        )],
    );
    is_found("renewal below a majority", &flaw, Oracle::Majority);
}

#[test]
fn a_fencing_token_that_only_counts() {
    let flaw = script(FENCE, &[("math.max(now, own + 1)", "own + 1")]);
    is_found("fence INCR after flush", &flaw, Oracle::TokenOrder);
}

#[test]
fn a_retry_with_a_new_token() {
    is_found("retry with new token", &client(Mistake::RetryWithNewToken), Oracle::Remains);
}

#[test]
fn no_quarantine() {
    is_found("quarantine off", &script(GATE, &[("if now < till then", "if false then")]), Oracle::Overlap);
}

#[test]
fn no_quarantine_for_free_locks() {
    let flaw = script(FREE, &[("(#text > #till or #text == #till and text >= till)", "true")]);
    is_found("quarantine off for free locks", &flaw, Oracle::Overlap);
}

#[test]
fn an_acquire_that_comes_late() {
    let flaw = script(FREE, &[(" and #text == #ARGV[4] and text <= ARGV[4]", "")]);
    is_found("late acquire", &flaw, Oracle::Servers);
}

/// This is Redlock without the gate, as it is described elsewhere.
#[test]
fn no_gate() {
    is_found("gate off", &Flaw { store: store::Kind::Ungated, ..Flaw::default() }, Oracle::Overlap);
}

const SHARED: (Asks, Harm) = (Asks::Shared, Harm::Usual);
const DOWNGRADE: &str = "-- Turns an exclusive lock";

#[test]
fn a_writer_beside_readers() {
    const FITS: &str = "if mode == 'x' or base ~= lock.mode then\n    return false";
    const BESIDE: &str =
        "if mode == 'x' or base ~= lock.mode then\n    return mode == 'x' and lock.mode == 's'";
    let flaw = script(ACQUIRE, &[(FITS, BESIDE)]);
    is_found_in(SHARED, "writer beside readers", &flaw, Oracle::Overlap);
}

#[test]
fn a_reader_whose_own_lease_is_not_renewed() {
    // The key stays, and the next writer finds that it has no holder.
    let flaw = script(RENEW, &[("redis.call('ZADD', lock.key, 'XX', till, member)", "local _ = till")]);
    is_found_in(SHARED, "reader's lease not renewed", &flaw, Oracle::Overlap);
}

#[test]
fn a_downgrade_that_lets_go() {
    let flaw = script(DOWNGRADE, &[("lock:put(value, 's', lease)\n  lock:serve()", "lock:serve()")]);
    is_found_in(SHARED, "downgrade lets go", &flaw, Oracle::Overlap);
}

const SEVERAL: (Asks, Harm) = (Asks::Several, Harm::Usual);
const ACQUIRE_ALL: &str = "-- Grants an exclusive lock on several keys";

#[test]
fn several_keys_of_which_one_is_looked_at() {
    let flaw = script(
        ACQUIRE_ALL,
        &[(
            "if not lock:granted(token, value, 'x') then",
            "if i == 1 and not lock:granted(token, value, 'x') then",
        )],
    );
    is_found_in(SEVERAL, "only the first of several keys", &flaw, Oracle::Overlap);
}

#[test]
fn a_part_of_several_keys() {
    const HELD: &str = "local answer = lock:held(token, 'x', more)";
    const PART: &str =
        "if i > 1 then locks[1]:put(value, 'x', lease) end local answer = lock:held(token, 'x', more)";
    is_found_in(SEVERAL, "a part of several keys", &script(ACQUIRE_ALL, &[(HELD, PART)]), Oracle::Remains);
}

#[test]
fn several_keys_of_which_one_is_renewed() {
    const FIRST: &str =
        "elseif type(held) == 'string' then\n    answers[i] = (held == '' and i > 1) and 1 or 0";
    let flaw = script(RENEW, &[(MISSING, FIRST)]);
    is_found_in((Asks::Several, Harm::Evictions), "loss of one is none of all", &flaw, Oracle::Majority);
}

const PAUSES: (Asks, Harm) = (Asks::Exclusive, Harm::Pauses);

#[test]
fn a_clock_that_does_not_count_a_pause() {
    is_found_in(
        PAUSES,
        "clock without pauses",
        &Flaw { clock_stands_still: true, ..Flaw::default() },
        Oracle::Overlap,
    );
}

#[test]
fn a_resource_that_does_not_look_at_tokens() {
    is_found_in(
        PAUSES,
        "late writes taken",
        &Flaw { resource_takes_all: true, ..Flaw::default() },
        Oracle::Resource,
    );
}

const EVICTIONS: (Asks, Harm) = (Asks::Exclusive, Harm::Evictions);

#[test]
fn a_server_that_throws_locks_away_and_goes_on_voting() {
    const LOOK: &str = "evicted > counted or (evicted < counted and evicted > 0)";
    is_found_in(
        EVICTIONS,
        "no quarantine after evictions",
        &script(BOOT, &[(LOOK, "false")]),
        Oracle::Overlap,
    );
}

#[test]
fn free_locks_without_a_look_at_the_marker() {
    // The marker changes when another client detects the eviction.
    let flaw = script(FREE, &[("and call('HGET', 'lock:voter', 'seal') == ARGV[#ARGV]", "")]);
    is_found_in(EVICTIONS, "marker not looked at", &flaw, Oracle::Overlap);
}

const BOOT: &str = "-- Registers one run of a voter";

#[test]
fn evictions_that_are_not_told() {
    is_found_in(
        EVICTIONS,
        "evictions unnoticed",
        &Flaw { silent_evictions: true, ..Flaw::default() },
        Oracle::Servers,
    );
}

#[test]
fn a_body_that_goes_on_without_its_lock() {
    is_found("body goes on when lost", &lapse(Lapse::GoesOnWhenLost), Oracle::Overlap);
}

#[test]
fn a_nested_call_that_asks_the_store() {
    is_found("nested call from outside", &lapse(Lapse::NestsOutside), Oracle::Answers);
}

#[test]
fn a_wait_for_ever_that_ends() {
    is_found("wait gives up", &lapse(Lapse::GivesUpWaiting), Oracle::Answers);
}

/// The world has one store, because a majority with its gate never forgets a held lock, and numbers no hand-offs. About
/// one world in three finds the bug, in whatever order the tasks of a client run.
#[test]
fn a_process_that_numbers_its_turns_by_its_own_clock() {
    let worlds = (1..=SEEDS).map(|seed| single::run(seed, true));
    is_found_by("turns numbered by the clock", Oracle::TokenOrder, worlds);
}

/// If a bug names no existing script, it is planted nowhere. If the audit does not know a script, it does not see the
/// script's effects.
#[test]
fn every_title_is_that_of_one_script() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../lock-core/src/backend");
    let scripts = ["redis/scripts", "redlock/voter/scripts"].map(|scripts| folder.join(scripts));
    let files = scripts.iter().flat_map(|folder| std::fs::read_dir(folder).expect("the scripts"));
    let texts: Vec<String> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
        .map(|path| std::fs::read_to_string(path).expect("a text"))
        .collect();
    let planted = [ACQUIRE, RENEW, FENCE, RELEASE, FREE, GATE, DOWNGRADE, ACQUIRE_ALL, BOOT];
    for title in planted.into_iter().chain(crate::audit::TITLES.map(|(title, _)| title)) {
        assert_eq!(texts.iter().filter(|text| text.contains(title)).count(), 1, "{title}");
    }
}
