//! Tests the results of correct configurations, and the errors of wrong ones.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use super::mistake::Mistakes;
use super::source::merge;
use super::{environment, file};
use crate::backend::memory::Memory;
use crate::backend::{Backend, Capability};
use crate::kind::Kind;
use crate::options::OnLost;
use crate::options::Options;
use crate::options::named::Named;
use crate::options::profile::Profile;
use crate::options::profiles::Profiles;
use crate::options::release::Release;
use crate::strategy;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Loads profiles from the program, a file and variables, and checks them against the memory store.
fn load(coded: &Named, text: &str, variables: &[(&str, &str)]) -> Result<Named, String> {
    let mut mistakes = Mistakes::default();
    let of_file = file::read("locks.toml", text, &mut mistakes);
    let known: BTreeSet<&str> = coded.keys().chain(of_file.keys()).map(String::as_str).collect();
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let of_environment = environment::read(variables, &known, &mut mistakes);
    let store = Capability { min_ttl: MS(10), ..Memory::new().capability() };
    let check = |named: &Named| Profiles::default().flaws(named, &store);
    merge(coded, &of_file, &of_environment, mistakes, check).map_err(|error| error.detail().to_owned())
}

fn one(text: &str, variables: &[(&str, &str)]) -> Options {
    let mut named = load(&Named::new(), text, variables).expect("a good configuration");
    named.remove("checkout").expect("the profile").options
}

#[test]
fn a_profile_has_every_option() {
    let options = one(
        r#"
        [profile.checkout]
        kind = "semaphore"
        permits = 3
        take = 2
        ttl = "1m 30s"
        strategy = "shed_above(200)"
        wait = "2s"
        backoff = { base = "10ms", max = "1s" }
        max_waiters = 64
        fencing = true
        reentrant = false
        renew = true
        renew_every = "1s"
        max_hold = "10m"
        min_hold = "1s"
        linger = "0s"
        on_lost = "finish"
        release = "background"
        label = "pay"
        "#,
        &[],
    );
    assert_eq!((options.kind, options.take), (Some(Kind::Semaphore { permits: 3 }), Some(2)));
    assert_eq!((options.ttl, options.wait), (Some(MS(90_000)), Some(MS(2_000))));
    let name = options.strategy.as_ref().map(|strategy| strategy.name().into_owned());
    assert_eq!(name.as_deref(), Some("shed_above(retry)"));
    assert_eq!(options.backoff, Some(strategy::Backoff::exponential(MS(10), MS(1_000))));
    assert_eq!((options.max_waiters, options.fencing), (Some(64), Some(true)));
    assert_eq!((options.reentrant, options.renew), (Some(false), Some(true)));
    assert_eq!((options.renew_every, options.max_hold), (Some(MS(1_000)), Some(MS(600_000))));
    assert_eq!((options.min_hold, options.linger), (Some(MS(1_000)), Some(MS(0))));
    assert_eq!((options.on_lost, options.release), (Some(OnLost::Finish), Some(Release::Background)));
    assert_eq!(options.label.as_deref(), Some("pay"));
    assert!(!format!("{options:?}").contains("None"), "{options:?}");
}

#[test]
fn a_variable_comes_before_the_file_and_the_file_before_the_program() {
    let coded = Profile::new().ttl(MS(1_000)).max_hold(MS(9_000)).strategy(strategy::skip());
    let coded: Named = [("checkout".to_owned(), coded), ("other".to_owned(), Profile::new())].into();
    let text = "[profile.checkout]\nttl = \"2s\"\nstrategy = \"retry\"\nwait = \"5s\"\nkind = \"semaphore\"\npermits = 2\n\
                backoff = { base = \"20ms\", max = \"30ms\" }";
    let variables = [
        ("LOCK_PROFILE_CHECKOUT_TTL", "3s"),
        ("LOCK_PROFILE_CHECKOUT_PERMITS", "7"),
        ("LOCK_PROFILE_CHECKOUT_BACKOFF_MAX", "40ms"),
        ("LOCK_PROFILE_CHECKOUT_RENEW", ""),
        ("LOCK_PROFILE_NIGHTLY_JOB_MAX_HOLD", "1h"),
        ("LOCK_URL", "memory://"),
    ];
    let named = load(&coded, text, &variables).expect("good");
    let options = &named["checkout"].options;
    assert_eq!(
        (options.ttl, options.wait, options.max_hold),
        (Some(MS(3_000)), Some(MS(5_000)), Some(MS(9_000)))
    );
    assert_eq!(options.kind, Some(Kind::Semaphore { permits: 7 }));
    assert_eq!(options.backoff, Some(strategy::Backoff::exponential(MS(20), MS(40))));
    assert_eq!(options.renew, None, "an empty variable is not set");
    assert_eq!(named["nightly_job"].options.max_hold, Some(MS(3_600_000)));
    assert!(named.contains_key("other"), "the file takes no profile away");
    let kind =
        |text, variable| load(&Named::new(), text, &[variable]).expect("good")["checkout"].options.kind;
    let file = "[profile.checkout]\nkind = \"semaphore\"\npermits = 2";
    assert_eq!(
        kind(file, ("LOCK_PROFILE_CHECKOUT_KIND", "fair")),
        Some(Kind::Fair),
        "permits are the semaphore's"
    );
    let file = "[profile.checkout]\nkind = \"semaphore\"";
    assert_eq!(kind(file, ("LOCK_PROFILE_CHECKOUT_PERMITS", "2")), Some(Kind::Semaphore { permits: 2 }));
    let options = load(&coded, text, &[("LOCK_PROFILE_CHECKOUT_STRATEGY", "fail_fast")]).expect("good");
    assert_eq!(options["checkout"].options.wait, None, "the wait belongs to the strategy beside it");
}

#[test]
fn what_a_profile_takes_belongs_to_the_kind_beside_it() {
    let semaphore = Profile::new().kind(Kind::Semaphore { permits: 8 }).take(2);
    let file = "[profile.checkout]\nkind = \"semaphore\"\npermits = 4\n";
    let taking = "[profile.checkout]\nkind = \"semaphore\"\npermits = 4\ntake = 3\n";
    // Each row contains the options of the program, the file, a variable, and the resulting permits and `take`.
    for (coded, text, variable, (permits, take)) in [
        (Profile::new(), taking, ("TTL", "1s"), (Some(4), Some(3))),
        (Profile::new(), taking, ("TAKE", "4"), (Some(4), Some(4))),
        (Profile::new(), taking, ("PERMITS", "5"), (Some(5), Some(3))),
        (Profile::new(), taking, ("KIND", "fair"), (None, None)),
        (Profile::new(), file, ("TAKE", "1"), (Some(4), Some(1))),
        (semaphore.clone(), "", ("TTL", "1s"), (Some(8), Some(2))),
        (semaphore.clone(), "", ("TAKE", "7"), (Some(8), Some(7))),
        (semaphore.clone(), file, ("TTL", "1s"), (Some(4), None)),
        (semaphore, "[profile.checkout]\ntake = 5", ("TTL", "1s"), (Some(8), Some(5))),
    ] {
        let coded: Named = [("checkout".to_owned(), coded)].into();
        let variable = (format!("LOCK_PROFILE_CHECKOUT_{}", variable.0), variable.1);
        let named = load(&coded, text, &[(&variable.0, variable.1)]).expect(text);
        let options = &named["checkout"].options;
        let found = match options.kind {
            Some(Kind::Semaphore { permits }) => Some(permits),
            _ => None,
        };
        assert_eq!((found, options.take), (permits, take), "{text} {variable:?}");
    }
}

/// Each row contains one wrong line, which is the only line of its profile, and parts of the resulting error.
const BAD: [(&str, &[&str]); 36] = [
    (
        "tll = \"1s\"",
        &[
            "unknown option `tll`",
            "did you mean `ttl = \"500ms\"`?",
            "options: `kind`, `permits`, `take`, `ttl`",
        ],
    ),
    ("ttl = 500", &["`ttl` takes a string with a unit, not `500`", "`ttl = \"500ms\"` or `ttl = \"500s\"`"]),
    ("ttl = \"500\"", &["`ttl`", "add a unit: `500ms` or `500s`?"]),
    ("ttl = \"5 parsecs\"", &["`ttl`: `5 parsecs` is not a duration", "such as `500ms`, `2s` or `1m 30s`"]),
    ("ttl = \"1ms\"", &["ttl is 1ms", "memory store holds"]),
    ("ttl = true", &["`ttl` takes a string with a unit, not `true`: write `ttl = \"500ms\"`"]),
    ("ttl = 500ms", &["`ttl = 500ms`"]),
    (
        "strategy = \"retyr\"",
        &["unknown strategy `retyr`; did you mean `retry`?", "strategies: `fail_fast`, `skip`"],
    ),
    ("strategy = \"shed_above\"", &["lacks how many requests a second", "`shed_above(200)`"]),
    ("strategy = \"block\"", &["did you mean `wait`?"]),
    ("strategy = 3", &["`strategy` takes the name of a strategy as a string (`fail_fast`"]),
    ("kind = \"raed\"", &["unknown kind `raed`; did you mean `read`?", "kinds: `reentrant`, `fair`"]),
    ("kind = \"mutex\"", &["did you mean `reentrant`?"]),
    ("kind = \"semaphore\"", &["needs `permits`: add one such as `permits = 3`"]),
    (
        "take = 3",
        &["take is 3, and a lock of kind reentrant has no permits: remove `take`, or use a semaphore"],
    ),
    ("take = 0", &["`take` takes a whole number from 1 to 4294967295, not `0`: write `take = 2`"]),
    ("weight = 3", &["unknown option `weight`; did you mean `take`"]),
    ("permits = 3", &["`permits` goes with `kind = \"semaphore\"` only"]),
    (
        "on_lost = \"cancle\"",
        &["unknown value `cancle`; did you mean `cancel`?", "`on_lost` is `\"cancel\"` or `\"finish\"`"],
    ),
    (
        "release = \"backgroud\"",
        &["did you mean `background`?", "`release` is `\"await\"` or `\"background\"`"],
    ),
    ("renew = \"no\"", &["`renew` takes `true` or `false`, not `\"no\"`: write `renew = false`"]),
    ("max_waiters = 0", &["`max_waiters` takes a whole number from 1 to 4294967295, not `0`"]),
    ("max_waiters = 1.5", &["not `1.5`: write `max_waiters = 64`"]),
    ("max_waiters = -1", &["a whole number from 1"]),
    ("backoff = \"10ms\"", &["write `backoff = { base = \"10ms\", max = \"200ms\" }`"]),
    (
        "backoff = { bsae = \"10ms\" }",
        &["unknown part `bsae` of `backoff`; did you mean `base`?; parts: `base`, `max`"],
    ),
    ("backoff = { base = \"1s\" }", &["`base` of `backoff` is 1s, longer than its `max` 200ms"]),
    ("timeout = \"1s\"", &["unknown option `timeout`; did you mean `wait`, how long"]),
    ("key = \"order:1\"", &["`key` belongs to one function or one request", "options: `kind`"]),
    ("banana = 1", &["unknown option `banana`; options: `kind`"]),
    ("label = \" \"", &["`label` is empty"]),
    ("label = [1]", &["`label` takes a string, not a list"]),
    ("worker = \"import-3\"", &["the store shows the host and the process of each holder"]),
    ("max_hold = \"0s\"", &["`max_hold`: `0s` is zero"]),
    ("min_hold = 1979-05-27", &["`min_hold` takes a string with a unit, not a date"]),
    ("wait", &["`wait`: "]),
];

#[test]
fn every_bad_line_is_answered_with_its_line_the_nearest_word_and_what_is_allowed() {
    for (line, parts) in BAD {
        let text = format!("# The locks.\n\n[profile.checkout]\n{line}\n");
        let error = load(&Named::new(), &text, &[]).expect_err(line);
        assert!(error.starts_with("locks.toml:4: "), "{line}: {error}");
        for part in parts {
            assert!(error.contains(part), "{line}: {part:?} is not in {error}");
        }
        assert_eq!(error.lines().count(), 1, "{line}: {error}");
    }
}

#[test]
fn all_bad_lines_are_answered_at_once() {
    let text: String =
        BAD.iter().enumerate().map(|(i, (line, _))| format!("[profile.p{i}]\n{line}\n")).collect();
    let error = load(&Named::new(), &text, &[]).expect_err("all of them");
    assert!(error.starts_with(&format!("the configuration has {} mistakes:\n", BAD.len())), "{error}");
    for (i, (line, parts)) in BAD.iter().enumerate() {
        let answer = error.lines().find(|answer| answer.starts_with(&format!("locks.toml:{}: ", 2 * i + 2)));
        let answer = answer.unwrap_or_else(|| panic!("{line} has no answer in {error}"));
        assert!(parts.iter().all(|part| answer.contains(part)), "{line}: {answer}");
    }
}

#[test]
fn options_that_contradict_each_other_are_answered_at_the_line_of_one() {
    for (lines, at, part) in [
        (
            "strategy = \"skip\"\nwait = \"1s\"",
            3,
            "profile `p`: wait is 1s, but strategy `skip` takes no limit",
        ),
        ("backoff = { max = \"1s\" }\nstrategy = \"skip\"", 2, "strategy `skip` takes none"),
        ("max_waiters = 3\nstrategy = \"fail_fast\"", 2, "strategy `fail_fast` does not wait"),
        ("max_hold = \"1s\"\nmin_hold = \"2s\"", 3, "min_hold is 2s, longer than max_hold 1s"),
        ("kind = \"fair\"\npermits = 3", 3, "`permits` cannot be combined with `kind = \"fair\"`"),
        ("take = 4\nkind = \"semaphore\"\npermits = 3", 2, "take is 4, and the semaphore has 3 permits"),
        ("kind = \"fair\"\ntake = 3", 3, "a lock of kind fair has no permits"),
        ("kind = \"raed\"\ntake = 3", 2, "did you mean `read`?"),
        ("kind = \"fair\"\nlinger = \"5ms\"", 3, "a lock of kind fair cannot"),
        ("ttl = \"30ms\"\nlinger = \"15ms\"", 3, "a third of the ttl"),
        ("renew = false\nrenew_every = \"1s\"", 3, "the lease is not renewed"),
        ("ttl = \"1s\"\nttl = \"2s\"", 3, "`ttl = \"2s\"`: duplicate key"),
    ] {
        let error = load(&Named::new(), &format!("[profile.p]\n{lines}"), &[]).expect_err(lines);
        assert!(error.starts_with(&format!("locks.toml:{at}: ")), "{lines}: {error}");
        assert!(error.contains(part), "{lines}: {error}");
    }
    let many = "[profile.p]\nttl = \"1ms\"\nstrategy = \"skip\"\nwait = \"1s\"\nmax_hold = \"1s\"\nmin_hold = \"2s\"";
    let error = load(&Named::new(), many, &[]).expect_err("three");
    for line in [2, 4, 6] {
        assert!(error.contains(&format!("\nlocks.toml:{line}: profile `p`: ")), "{error}");
    }
}

#[test]
fn what_is_no_profile_is_answered_too() {
    for (text, at, part) in [
        ("[profiles.checkout]", 1, "unknown word `profiles`; did you mean `profile`?; a file has tables"),
        ("ttl = \"1s\"", 1, "unknown word `ttl`; a file has tables `[profile.checkout]`"),
        ("profile = 3", 1, "write `[profile.checkout]`"),
        ("[profile]\nttl = \"1s\"", 2, "profile `ttl` takes options: write `[profile.ttl]`"),
        ("[profile.\"\"]", 1, "a profile has no name"),
        ("\n[profile.a", 2, "`[profile.a`: "),
    ] {
        let error = load(&Named::new(), text, &[]).expect_err(text);
        assert!(error.starts_with(&format!("locks.toml:{at}: ")) && error.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_bad_variable_is_answered_with_its_name() {
    let coded: Named = ["checkout", "a-b", "a_b"].map(|name| (name.to_owned(), Profile::new())).into();
    for (name, value, part) in [
        (
            "CHECKOUT_TLL",
            "1s",
            "it ends with no option; did you mean `LOCK_PROFILE_CHECKOUT_TTL`?; options: `KIND`",
        ),
        ("CHEKCOUT_TLL", "1s", "did you mean `LOCK_PROFILE_CHEKCOUT_TTL`?"),
        ("TTL", "1s", "it ends with no option"),
        ("CHECKOUT_TTL", "500", "add a unit: `500ms` or `500s`?"),
        ("CHECKOUT_RENEW", "yes", "`renew` takes `true` or `false`, not `yes`"),
        ("CHECKOUT_PERMITS", "many", "a whole number from 1 to 4294967295, not `many`"),
        ("CHECKOUT_PERMITS", "3", "`permits` goes with `kind = \"semaphore\"` only"),
        ("CHECKOUT_TAKE", "all", "`take` takes a whole number from 1 to 4294967295, not `all`"),
        ("CHECKOUT_TAKE", "3", "profile `checkout`: take is 3, and a lock of kind reentrant has no permits"),
        ("CHECKOUT_KIND", "raed", "did you mean `read`?"),
        ("CHECKOUT_TTL", "1ms", "profile `checkout`: ttl is 1ms"),
        ("A_B_TTL", "1s", "it can mean several profiles: `a-b`, `a_b`"),
    ] {
        let name = format!("LOCK_PROFILE_{name}");
        let error = load(&coded, "", &[(&name, value)]).expect_err(&name);
        assert!(error.starts_with(&format!("{name}: ")) && error.contains(part), "{name}: {error}");
    }
}
