//! Reads the option `backoff(base = .., max = ..)`, which sets the pauses of a strategy that retries.

use std::time::Duration;

use syn::spanned::Spanned as _;
use syn::{Expr, LitStr};

use crate::args::{Arg, Args, Words};
use crate::errors::Errors;
use crate::value::duration_of;
use crate::words::backoff::{BASE, MAX};

static PARTS: Words = Words {
    one: "part",
    forms: &[("base", "base = \"10ms\""), ("max", "max = \"200ms\"")],
    synonyms: |_| None,
};

/// The upper bound of the first pause, and the upper bound of all pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) base: Duration,
    pub(crate) max: Duration,
}

pub(crate) fn backoff(arg: &Arg) -> syn::Result<Backoff> {
    let mut errors = Errors::default();
    let Expr::Verbatim(parts) = &arg.value else { unreachable!("BUG: `backoff` has parentheses") };
    let parts = Args::read(parts.clone(), &PARTS, &mut errors);
    let (base, max) = (parts.get("base"), parts.get("max"));
    if base.is_none() && max.is_none() && errors.is_empty() {
        errors.add(arg.name.span(), "`backoff` is empty: write `base`, `max` or both, or remove it");
    }
    let base = base.and_then(|part| Some((part, errors.take(duration_of(part))?)));
    let max = max.and_then(|part| Some((part, errors.take(duration_of(part))?)));
    if errors.is_empty() {
        check_order(base.as_ref(), max.as_ref(), &mut errors);
    }
    let backoff =
        Backoff { base: base.map_or(BASE, |(_, (_, base))| base), max: max.map_or(MAX, |(_, (_, max))| max) };
    errors.or(backoff)
}

type Part<'a> = (&'a Arg, (LitStr, Duration));

/// Refuses a `base` that is larger than `max`, because such a `base` would have no effect.
fn check_order(base: Option<&Part<'_>>, max: Option<&Part<'_>>, errors: &mut Errors) {
    match (base, max) {
        (Some((base, (base_text, first))), Some((max, (max_text, longest)))) if first > longest => {
            let message = format!(
                "`base = \"{}\"` is longer than `max = \"{}\"`: change one of them",
                base_text.value(),
                max_text.value()
            );
            errors.add(base.later_of(max).value.span(), message);
        }
        (Some((_, (text, first))), None) if *first > MAX => {
            let message = format!(
                "`base = \"{}\"` is longer than the default of `max`, {MAX:?}: add a `max`",
                text.value()
            );
            errors.add(text.span(), message);
        }
        (None, Some((_, (text, longest)))) if *longest < BASE => {
            let message = format!(
                "`max = \"{}\"` is shorter than the default of `base`, {BASE:?}: add a `base`",
                text.value()
            );
            errors.add(text.span(), message);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(option: &str) -> Result<(u64, u64), String> {
        let mut errors = Errors::default();
        let args = Args::parse(option.parse().expect(option), &mut errors);
        let read = args.get("backoff").and_then(|arg| errors.take(backoff(arg)));
        match (read, errors.into_tokens()) {
            (Some(Backoff { base, max }), None) => Ok((millis(base), millis(max))),
            (None, Some(errors)) => Err(errors.to_string()),
            (read, errors) => panic!("{option}: {read:?}, errors {errors:?}"),
        }
    }

    fn millis(duration: Duration) -> u64 {
        u64::try_from(duration.as_millis()).expect("a short time")
    }

    #[test]
    fn a_part_that_is_not_given_has_its_default() {
        for (option, base, max) in [
            (r#"backoff(base = "10ms", max = "300ms")"#, 10, 300),
            (r#"backoff(max = "1m", base = "10ms",)"#, 10, 60_000),
            (r#"backoff(base = "200ms")"#, 200, 200),
            (r#"backoff(max = "5ms")"#, 5, 5),
            (r#"backoff(base = "1s", max = "1s")"#, 1_000, 1_000),
        ] {
            assert_eq!(read(option), Ok((base, max)), "{option}");
        }
    }

    #[test]
    fn what_is_no_backoff_says_what_to_write() {
        for (option, part) in [
            ("backoff", "takes its parts in parentheses"),
            (r#"backoff = "10ms""#, "takes its parts in parentheses"),
            ("backoff()", "`backoff` is empty"),
            (r#"backoff("10ms")"#, "name the part: `base = "),
            (r#"backoff(bsae = "10ms")"#, "did you mean `base`?"),
            (r#"backoff(jitter = true)"#, "unknown part `jitter`\\nparts: `base`, `max`"),
            (r#"backoff(base = "10ms", base = "20ms")"#, "`base` is given twice"),
            (r#"backoff(base)"#, "expected a value: `base = "),
            (r#"backoff(5)"#, "expected a part: `base`, `max`"),
            (r#"backoff(base = 10)"#, "add a unit"),
            (r#"backoff(max = "10")"#, "add a unit"),
            (r#"backoff(base = "2s", max = "1s")"#, "is longer than `max = "),
            (r#"backoff(base = "201ms")"#, "the default of `max`, 200ms"),
            (r#"backoff(max = "4ms")"#, "the default of `base`, 5ms"),
        ] {
            let errors = read(option).expect_err(option);
            assert!(errors.contains(part), "{option}: {errors}");
            assert_eq!(errors.matches("compile_error").count(), 1, "{option}: {errors}");
        }
    }
}
