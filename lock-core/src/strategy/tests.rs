//! Tests each strategy with a table, and all strategies with property tests.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::Strategy;
use super::*;
use crate::error::LockErrorKind;

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(5);

fn at(waited: Duration) -> Contention {
    Contention::new().with_waited(waited)
}

fn pause(decision: Decision) -> Duration {
    match decision {
        Decision::RetryAfter(pause) => pause,
        Decision::Fail | Decision::Skip | Decision::Shed => panic!("expected a pause, got {decision:?}"),
    }
}

#[test]
fn the_end_of_the_wait_decides_as_documented() {
    use Decision::{Fail, Skip};
    let table: [(&dyn Strategy, Option<Decision>, Option<Decision>); 5] = [
        // Each row contains a strategy, its first decision, and its decision when the wait is over. `None` means a
        // pause.
        (&fail_fast(), Some(Fail), Some(Fail)),
        (&skip(), Some(Skip), Some(Skip)),
        (&retry(), None, Some(Fail)),
        (&retry_or_skip(), None, Some(Skip)),
        (&wait(), None, None),
    ];
    for (strategy, first, last) in table {
        for (contention, expected) in
            [(at(Duration::ZERO), first), (at(LIMIT - MS), first), (at(LIMIT), last)]
        {
            let decision = strategy.decide(&contention);
            let given = Some(decision).filter(|decision| !matches!(decision, Decision::RetryAfter(_)));
            assert_eq!(given, expected, "{strategy:?} {contention:?}");
        }
    }
}

#[test]
fn the_limit_of_the_request_goes_before_the_own() {
    for (own, request, waited, waits) in [
        (LIMIT, Some(2 * LIMIT), LIMIT, true),
        (LIMIT, Some(MS), MS, false),
        (LIMIT, None, LIMIT, false),
        (LIMIT, Some(Duration::ZERO), Duration::ZERO, false),
        (Duration::ZERO, None, Duration::ZERO, false),
        (Duration::MAX, None, Duration::MAX - MS, true),
    ] {
        let contention = at(waited).with_wait_limit(request);
        for decision in
            [retry().within(own).decide(&contention), retry_or_skip().within(own).decide(&contention)]
        {
            assert_eq!(matches!(decision, Decision::RetryAfter(_)), waits, "{own:?} {contention:?}");
        }
    }
}

#[test]
fn only_bounded_strategies_take_a_limit() {
    assert!(retry().takes_wait_limit() && retry_or_skip().takes_wait_limit());
    assert!(!fail_fast().takes_wait_limit() && !skip().takes_wait_limit() && !wait().takes_wait_limit());
    assert!(shed(retry(), 1).takes_wait_limit() && !shed(wait(), 1).takes_wait_limit());
}

#[test]
fn the_bound_of_the_pause_doubles_up_to_the_maximum() {
    for (attempts, jitter, milliseconds) in [
        (0, 1.0, 5),
        (1, 1.0, 5),
        (2, 1.0, 10),
        (3, 0.5, 10),
        (6, 1.0, 160),
        (7, 1.0, 200),
        (u32::MAX, 1.0, 200),
        (u32::MAX, 0.25, 50),
        // A pause is never shorter than 1 ms, so that no caller spins.
        (1, 0.0, 1),
        (7, -0.0, 1),
        // These values are outside the documented range.
        (7, -1.0, 1),
        (7, 2.0, 200),
        (7, f64::INFINITY, 200),
        (7, f64::NEG_INFINITY, 1),
        (7, f64::NAN, 200),
    ] {
        let contention = Contention::new().with_attempts(attempts).with_jitter(jitter);
        let delay = Backoff::default().delay(&contention, None);
        assert_eq!(delay, Duration::from_millis(milliseconds), "attempts {attempts}, jitter {jitter}");
    }
}

#[test]
fn the_pause_ends_with_the_wait_and_just_after_the_lease() {
    let slow = Backoff::exponential(LIMIT, LIMIT);
    let full = Contention::new().with_jitter(1.0);
    for (lease, left, milliseconds) in [
        (None, None, 5000),
        (None, Some(7), 7),
        (Some(7), None, 8),
        (Some(0), None, 1),
        (Some(7), Some(3), 3),
        (Some(3), Some(7), 4),
    ] {
        let contention = full.clone().with_holder_remaining(lease.map(Duration::from_millis));
        let delay = slow.delay(&contention, left.map(Duration::from_millis));
        assert_eq!(delay, Duration::from_millis(milliseconds), "lease {lease:?}, left {left:?}");
    }
    let left = Duration::from_nanos(1);
    assert_eq!(slow.delay(&full, Some(left)), left, "exactly what is left, below the floor too");
}

#[test]
fn the_own_backoff_is_used() {
    let slow = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(2));
    let first = Contention::new().with_jitter(1.0);
    for decision in [
        retry().backoff(slow).decide(&first),
        retry_or_skip().backoff(slow).decide(&first),
        wait().backoff(slow).decide(&first),
    ] {
        assert_eq!(pause(decision), Duration::from_secs(1));
    }
}

#[test]
fn shed_refuses_newcomers_to_a_long_queue_only() {
    let first = Contention::new();
    for (waiters, attempts, sheds) in [
        (Some(2), 1, true),
        (Some(usize::MAX), 1, true),
        (Some(1), 1, false),
        (None, 1, false),
        (Some(2), 2, false),
    ] {
        let contention = first.clone().with_waiters(waiters).with_attempts(attempts);
        let decision = shed(retry(), 2).decide(&contention);
        assert_eq!(decision == Decision::Shed, sheds, "{contention:?}");
    }
    let crowded = first.with_waiters(Some(9));
    assert_eq!(shed(skip(), 2).decide(&crowded), Decision::Skip, "who does not wait is not shed");
    assert_eq!(shed(fail_fast(), 2).decide(&crowded), Decision::Fail, "who does not wait is not shed");
    assert_eq!(shed(retry(), 0).decide(&Contention::new().with_waiters(Some(0))), Decision::Shed);
}

#[test]
fn a_waiter_that_is_notified_pauses_for_a_second_or_for_what_is_left() {
    let notified = Contention::new().with_notified(true).with_holder_remaining(Some(MS)).with_jitter(0.0);
    let late = notified.clone().with_waited(LIMIT - MS * 300);
    for strategy in [&retry().within(LIMIT) as &dyn Strategy, &retry_or_skip().within(LIMIT), &wait()] {
        assert_eq!(pause(strategy.decide(&notified)), MS * 1_000, "{strategy:?}");
    }
    assert_eq!(
        pause(retry().within(LIMIT).decide(&late)),
        MS * 300,
        "the last try comes at the end of the wait"
    );
}

#[test]
fn names_are_parsed_and_delegated_to() {
    let strategies: [Arc<dyn Strategy>; 5] = [
        Arc::new(fail_fast()),
        Arc::new(skip()),
        Arc::new(retry()),
        Arc::new(retry_or_skip()),
        Arc::new(wait()),
    ];
    for (name, strategy) in NamedStrategy::NAMES.into_iter().zip(strategies) {
        let named: NamedStrategy = name.parse().unwrap();
        assert_eq!((named.name(), named.to_string()), (name.into(), name.to_owned()));
        assert_eq!(strategy.name(), name);
        assert_eq!(named.takes_wait_limit(), strategy.takes_wait_limit());
        for contention in [at(Duration::ZERO), at(LIMIT)] {
            assert_eq!(named.decide(&contention), strategy.decide(&contention), "{name}");
        }
        assert_eq!(named.skips(), strategy.decide(&at(LIMIT)) == Decision::Skip, "{name}");
    }
    assert_eq!(shed(Arc::new(retry()) as Arc<dyn Strategy>, 3).name(), "shed(retry)");
}

#[test]
fn an_unknown_name_suggests_the_nearest_and_lists_all() {
    for (name, hint) in [
        ("retyr", Some("retry")),
        ("Retry", Some("retry")),
        ("fail-fast", Some("fail_fast")),
        ("FAILFAST", Some("fail_fast")),
        ("retry_or_fail", Some("retry_or_skip")),
        ("skipp", Some("skip")),
        ("waits", Some("wait")),
        ("", None),
        ("queue", None),
        (&*"retry".repeat(1000), None),
    ] {
        let error = name.parse::<NamedStrategy>().unwrap_err();
        assert_eq!(error.kind(), LockErrorKind::InvalidRequest);
        let text = error.to_string();
        if let Some(hint) = hint {
            assert!(text.contains(&format!("did you mean `{hint}`?")), "{text}");
        }
        assert_eq!(text.contains("did you mean"), hint.is_some(), "{text}");
        assert!(text.contains("`fail_fast`, `skip`, `retry`, `retry_or_skip`, `wait`"), "{text}");
    }
}

fn durations() -> impl proptest::strategy::Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        Just(Duration::MAX),
        (0..10_000_u64).prop_map(Duration::from_millis),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
    ]
}

fn contentions() -> impl proptest::strategy::Strategy<Value = Contention> {
    let optional = || proptest::option::of(durations());
    let attempts = prop_oneof![any::<u32>(), 0..40_u32];
    let jitter = prop_oneof![0.0..1.0_f64, any::<f64>(), Just(f64::NAN)];
    let waiters = proptest::option::of(any::<usize>());
    (attempts, durations(), optional(), optional(), waiters, any::<bool>(), jitter).prop_map(
        |(attempts, waited, wait_limit, holder_remaining, waiters, notified, jitter)| Contention {
            attempts,
            waited,
            wait_limit,
            holder_remaining,
            waiters,
            rate: waiters.map(|waiters| waiters as f64),
            notified,
            jitter,
        },
    )
}

#[test]
fn other_pauses_are_taken_by_what_tries_again_and_change_nothing_else() {
    let second = Contention::new().with_jitter(1.0);
    let backoff = Backoff::exponential(MS * 70, LIMIT);
    let named = |name: &str| name.parse::<NamedStrategy>().expect("a known name");
    let table: [(&dyn Strategy, bool); 9] = [
        (&fail_fast(), false),
        (&skip(), false),
        (&named("skip"), false),
        (&shed(fail_fast(), 3), false),
        (&retry(), true),
        (&retry_or_skip(), true),
        (&wait(), true),
        (&named("wait"), true),
        (&Arc::new(shed(retry(), 3)), true),
    ];
    for (strategy, takes) in table {
        let changed = strategy.with_backoff(backoff);
        assert_eq!(changed.is_some(), takes, "{strategy:?}");
        let Some(changed) = changed else { continue };
        assert_eq!(pause(changed.decide(&second)), MS * 70, "{strategy:?}");
        assert_ne!(pause(strategy.decide(&second)), MS * 70, "{strategy:?}");
        assert_eq!(changed.name(), strategy.name());
        assert_eq!(changed.takes_wait_limit(), strategy.takes_wait_limit());
        let late = at(LIMIT).with_waiters(Some(3));
        assert_eq!(
            matches!(changed.decide(&late), Decision::RetryAfter(_)),
            matches!(strategy.decide(&late), Decision::RetryAfter(_)),
            "{strategy:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn no_input_panics_and_no_pause_exceeds_what_is_left(
        contention in contentions(), within in durations(), base in durations(), max in durations(),
    ) {
        let backoff = Backoff::exponential(base, max);
        let limit = contention.wait_limit.unwrap_or(within);
        let left = limit.saturating_sub(contention.waited);
        let bounded: [(Arc<dyn Strategy>, Decision); 3] = [
            (Arc::new(retry().within(within).backoff(backoff)), Decision::Fail),
            (Arc::new(retry_or_skip().within(within).backoff(backoff)), Decision::Skip),
            (Arc::new(shed(retry().within(within).backoff(backoff), usize::MAX)), Decision::Fail),
        ];
        for (strategy, at_the_end) in bounded {
            match strategy.decide(&contention) {
                Decision::RetryAfter(pause) => {
                    prop_assert!(pause <= left);
                    prop_assert!(!pause.is_zero());
                }
                Decision::Shed => prop_assert_eq!(contention.waiters, Some(usize::MAX)),
                decision => {
                    prop_assert_eq!(decision, at_the_end);
                    prop_assert!(left.is_zero());
                }
            }
        }
        let pause = pause(wait().backoff(backoff).decide(&contention));
        let longest = if contention.notified { MS * 1_000 } else { max.max(MS) };
        prop_assert!(pause >= MS && pause <= longest);
        if let Some(rest) = contention.holder_remaining.filter(|_| !contention.notified) {
            prop_assert!(pause <= rest.saturating_add(MS));
        }
    }

    #[test]
    fn every_bounded_wait_ends_at_its_limit(limit in 0..3_000_u64, seed in any::<u64>()) {
        let limit = Duration::from_millis(limit);
        let mut random = fastrand::Rng::with_seed(seed);
        let strategy = retry().within(limit);
        let mut contention = Contention::new().with_jitter(random.f64());
        while let Decision::RetryAfter(pause) = strategy.decide(&contention) {
            contention.waited += pause;
            contention.attempts += 1;
            contention.jitter = random.f64();
            prop_assert!(contention.attempts <= 3_002, "pauses of at least 1 ms");
        }
        prop_assert_eq!(contention.waited, limit);
    }
}
