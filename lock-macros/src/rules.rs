//! Refuses options that contradict each other. The error names both options, and points at the later option.

use std::time::Duration;

use crate::args::{Arg, Args};
use crate::errors::Errors;
use crate::kind::Kind;
use crate::plain::Plain;
use crate::strategy::Strategy;
use crate::value::integer;
use crate::words::kind::KindWord;
use crate::words::strategy::StrategyWord;

/// The values that the rules compare. An option is `None` if it is missing, or if its value is wrong and was already
/// reported.
pub(crate) struct Readings<'a> {
    pub(crate) kind: Option<&'a Kind>,
    pub(crate) strategy: Option<&'a Strategy>,
    pub(crate) plain: &'a Plain,
}

pub(crate) fn check(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    wait_without_waiting(args, read, errors);
    backoff_without_trying_again(args, read, errors);
    max_waiters_without_waiting(args, read, errors);
    keys_of_another_kind(args, read, errors);
    take_of_another_kind(args, read, errors);
    take_of_several_keys(args, errors);
    take_beyond_permits(args, read, errors);
    min_hold_beyond_max_hold(args, read, errors);
    min_hold_beyond_a_fixed_ttl(args, read, errors);
    renew_every_without_renewal(args, read, errors);
    linger_of_another_kind(args, read, errors);
    linger_of_several_keys(args, read, errors);
    linger_beyond_its_bound(args, read, errors);
}

/// Returns the strategy, if it is given by name.
fn named<'a>(args: &'a Args, read: &Readings<'_>) -> Option<(&'a Arg, StrategyWord)> {
    match (args.get("strategy"), read.strategy?) {
        (Some(arg), Strategy::Named(named)) => Some((arg, *named)),
        _ => None,
    }
}

/// Refuses `wait` with a strategy that does not wait, or that waits forever, because the limit would have no effect.
fn wait_without_waiting(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(wait), Some((strategy, named))) = (args.get("wait"), named(args, read)) else { return };
    if named.waits_for_a_while() {
        return;
    }
    let name = named.name();
    let why = if named == StrategyWord::Wait { "waits for ever" } else { "does not wait" };
    let message = format!(
        "`wait` cannot be combined with `strategy = \"{name}\"`, which {why}: remove `wait`, or choose `retry` or `retry_or_skip`"
    );
    errors.add(wait.later_of(strategy).name.span(), message);
}

/// Refuses `backoff` with a strategy that does not retry, because the pauses would have no effect. Also refuses
/// `backoff` with a strategy that is an expression, because the expression sets the pauses.
fn backoff_without_trying_again(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(backoff), Some(strategy)) = (args.get("backoff"), args.get("strategy")) else { return };
    let message = match read.strategy {
        Some(Strategy::Named(named)) if !named.tries_again() => format!(
            "`backoff` cannot be combined with `strategy = \"{}\"`, which does not try again: remove `backoff`, or choose `retry`, \
             `retry_or_skip` or `wait`",
            named.name()
        ),
        Some(Strategy::Value(_)) => {
            "`backoff` cannot be combined with a `strategy` that is an expression: write it into the \
                                   expression, such as `retry().backoff(Backoff::exponential(base, max))`"
                .to_owned()
        }
        Some(Strategy::Named(_)) | None => return,
    };
    errors.add(backoff.later_of(strategy).name.span(), message);
}

/// Refuses `max_waiters` with a strategy that does not wait, because the limit would have no effect.
fn max_waiters_without_waiting(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(max), Some((strategy, named))) = (args.get("max_waiters"), named(args, read)) else { return };
    if named.tries_again() {
        return;
    }
    let message = format!(
        "`max_waiters` cannot be combined with `strategy = \"{}\"`, which does not wait: remove `max_waiters`, or choose `retry`, \
         `retry_or_skip` or `wait`",
        named.name()
    );
    errors.add(max.later_of(strategy).name.span(), message);
}

/// Refuses kinds other than `reentrant` and `write` for several keys, because each of these keys has one holder.
fn keys_of_another_kind(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(keys), Some(arg), Some(kind)) = (args.get("keys"), args.get("kind"), read.kind) else { return };
    if matches!(kind.word, KindWord::Reentrant | KindWord::Write) {
        return;
    }
    let message = format!(
        "`keys` cannot be combined with `kind = \"{}\"`: several keys have one holder each; remove `kind`, write `kind = \"write\"`, or lock one `key`",
        kind.word.name()
    );
    errors.add(keys.later_of(arg).name.span(), message);
}

/// Refuses `take` for a kind without permits. Without `kind`, the profile may set the kind to a semaphore.
fn take_of_another_kind(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let Some(take) = args.get("take") else { return };
    match (args.get("kind"), read.kind) {
        (_, Some(Kind { word: KindWord::Semaphore, .. })) => {}
        (Some(arg), Some(kind)) => {
            let message = format!(
                "`take` cannot be combined with `kind = \"{}\"`, which has no permits: remove `take`, or write \
                 `kind = \"semaphore\"` with `permits`",
                kind.word.name()
            );
            errors.add(take.later_of(arg).name.span(), message);
        }
        (None, _)
            if args.get("profile").is_none()
                && args.get("permits").is_none()
                && args.get("keys").is_none() =>
        {
            let message = "`take` goes with `kind = \"semaphore\"` only: add that with `permits`, name a `profile` that has \
                           them, or remove `take`";
            errors.add(take.name.span(), message);
        }
        // The mistake was already reported, or the profile sets the kind.
        _ => {}
    }
}

/// Refuses `take` for several keys, because each key has one holder, even if the kind comes from a profile.
fn take_of_several_keys(args: &Args, errors: &mut Errors) {
    let (Some(take), Some(keys), None) = (args.get("take"), args.get("keys"), args.get("kind")) else {
        return;
    };
    let message = "`take` cannot be combined with `keys`: several keys have one holder each; remove `take`, or lock one `key`";
    errors.add(take.later_of(keys).name.span(), message);
}

/// Refuses a `take` that exceeds `permits`, because no call could ever acquire so many permits. Expressions are
/// compared at run time.
fn take_beyond_permits(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(take), Some(permits)) = (args.get("take"), args.get("permits")) else { return };
    let there = read.kind.and_then(|kind| kind.permits.as_ref());
    let (Some(asked), Some(there)) = (read.plain.number("take"), there) else { return };
    if let (Some(asked), Some(there)) = (integer(asked), integer(there))
        && asked > there
    {
        let message = format!(
            "`take = {asked}` is more than `permits = {there}`, so a call would wait for ever: change one of them"
        );
        errors.add(take.later_of(permits).name.span(), message);
    }
}

fn min_hold_beyond_max_hold(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(min), Some(max)) = (args.get("min_hold"), args.get("max_hold")) else { return };
    let (Some((min_text, shortest)), Some((max_text, longest))) =
        (read.plain.time("min_hold"), read.plain.time("max_hold"))
    else {
        return;
    };
    if shortest > longest {
        let message = format!(
            "`min_hold = \"{}\"` is longer than `max_hold = \"{}\"`: change one of them",
            min_text.value(),
            max_text.value()
        );
        errors.add(min.later_of(max).name.span(), message);
    }
}

fn renew_every_without_renewal(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(every), Some(renew)) = (args.get("renew_every"), args.get("renew")) else { return };
    if read.plain.flag("renew") == Some(false) {
        let message =
            "`renew_every` cannot be combined with `renew = false`, which does not renew: remove one of them";
        errors.add(every.later_of(renew).name.span(), message);
    }
}

/// The longest linger. `lock-core` has the same limits (`options/linger.rs`), and also checks the values of profiles.
const LONGEST_LINGER: Duration = Duration::from_secs(1);

/// Returns the option `linger`, if it is not zero. Zero is allowed for every kind, because it disables the linger.
fn linger<'a>(args: &'a Args, read: &Readings<'_>) -> Option<&'a Arg> {
    let (_, time) = read.plain.time("linger")?;
    args.get("linger").filter(|_| !time.is_zero())
}

/// Refuses `linger` for kinds other than `reentrant`, because only the holder of an exclusive lock without an order of
/// arrival is notified of waiters.
fn linger_of_another_kind(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(linger), Some(arg), Some(kind)) = (linger(args, read), args.get("kind"), read.kind) else {
        return;
    };
    let why = match kind.word {
        KindWord::Reentrant => return,
        KindWord::Fair => {
            "it gets the key in the order of the store's queue, and a lock that stays would break that"
        }
        KindWord::Read | KindWord::Write => {
            "readers and writers get the key in the order of the store's queue"
        }
        KindWord::Semaphore => "the store tells nobody who holds a permit that somebody waits for one",
    };
    let message = format!(
        "`linger` cannot be combined with `kind = \"{}\"`: {why}; remove one of them",
        kind.word.name()
    );
    errors.add(linger.later_of(arg).name.span(), message);
}

/// Refuses `linger` for several keys, because the next request acquires one key after another, and a lingering lock of
/// all keys would block it.
fn linger_of_several_keys(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(linger), Some(keys)) = (linger(args, read), args.get("keys")) else { return };
    let message = "`linger` cannot be combined with `keys`: it waits for one key after another, and a lock of all of them \
                   would be in its own way; remove `linger`, or lock one `key`";
    errors.add(linger.later_of(keys).name.span(), message);
}

/// Refuses a linger that is too long. A waiter in another process may have to wait until the linger ends, and the rest
/// of the lease must be long enough for the linger.
fn linger_beyond_its_bound(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(linger), Some((text, length))) = (args.get("linger"), read.plain.time("linger")) else {
        return;
    };
    if length > LONGEST_LINGER {
        let message = format!("`linger = \"{}\"` is too long: it is at most 1 s", text.value());
        errors.add(linger.name.span(), message);
    } else if let (Some(ttl), Some((ttl_text, lease))) = (args.get("ttl"), read.plain.time("ttl"))
        && length > lease / 3
    {
        let message = format!(
            "`linger = \"{}\"` is longer than a third of `ttl = \"{}\"`: change one of them",
            text.value(),
            ttl_text.value()
        );
        errors.add(linger.later_of(ttl).name.span(), message);
    }
}

/// Refuses a `min_hold` that is longer than a ttl without renewal, because the lease would end first.
fn min_hold_beyond_a_fixed_ttl(args: &Args, read: &Readings<'_>, errors: &mut Errors) {
    let (Some(min), Some(ttl), Some(renew)) = (args.get("min_hold"), args.get("ttl"), args.get("renew"))
    else {
        return;
    };
    let (Some((min_text, shortest)), Some((ttl_text, lease)), Some(false)) =
        (read.plain.time("min_hold"), read.plain.time("ttl"), read.plain.flag("renew"))
    else {
        return;
    };
    if shortest > lease {
        let message = format!(
            "`min_hold = \"{}\"` is longer than `ttl = \"{}\"`, which `renew = false` does not renew: make the ttl longer, \
             or remove `renew`",
            min_text.value(),
            ttl_text.value()
        );
        errors.add(min.later_of(ttl).later_of(renew).name.span(), message);
    }
}
