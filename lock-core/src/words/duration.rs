//! Parses durations such as `"500ms"`, and shows them. The errors suggest what to write instead.

use std::time::Duration;

use super::option::ZERO_SWITCHES_OFF;

/// Parses a duration such as `500ms`, `2s` or `1m 30s`, and refuses zero.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let duration = parse_or_zero(text)?;
    if duration.is_zero() {
        return Err(format!("`{}` is zero: write a longer duration", text.trim()));
    }
    Ok(duration)
}

/// Parses the value of `option`. Accepts zero only if zero disables the option.
pub(crate) fn parse_option(option: &str, text: &str) -> Result<Duration, String> {
    if ZERO_SWITCHES_OFF.contains(&option) { parse_or_zero(text) } else { parse(text) }
}

/// Returns a duration as text that can be parsed again. A duration of an hour or more is shown in days and hours: `24h`,
/// `400days`. A shorter one is shown as by `Debug`: `10ms`, `2.5s`.
pub(crate) fn shown(duration: Duration) -> String {
    let hours = duration.as_secs() / 3600;
    if hours == 0 {
        return format!("{duration:?}");
    }
    let rest = duration - Duration::from_secs(hours * 3600);
    let (days, hours) = if hours < 48 { (0, hours) } else { (hours / 24, hours % 24) };
    let mut parts = Vec::new();
    parts.extend((days > 0).then(|| format!("{days}days")));
    parts.extend((hours > 0).then(|| format!("{hours}h")));
    parts.extend((!rest.is_zero()).then(|| humantime::format_duration(rest).to_string()));
    parts.join(" ")
}

fn parse_or_zero(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a duration is missing: write one such as `500ms`".to_owned());
    }
    if is_bare_number(text) {
        return Err(format!("add a unit: `{text}ms` or `{text}s`?"));
    }
    sum(text).map_err(|error| {
        format!("`{text}` is not a duration ({error}): write one such as `500ms`, `2s` or `1m 30s`")
    })
}

/// Returns the sum of the parts of a duration, such as `1m` and `30s`. The parts are parsed separately, because
/// `humantime` panics if their sum exceeds the maximum by less than a second.
fn sum(text: &str) -> Result<Duration, String> {
    let mut sum = Duration::ZERO;
    for part in parts(text) {
        let part = humantime::parse_duration(part.trim()).map_err(|error| error.to_string())?;
        sum = sum.checked_add(part).ok_or("it is too long")?;
    }
    Ok(sum)
}

/// Splits a text after each unit that is followed by a number.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut had_unit) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        if letter.is_ascii_digit() && had_unit {
            parts.push(&text[begin..at]);
            (begin, had_unit) = (at, false);
        }
        had_unit |= letter.is_alphabetic();
    }
    parts.push(&text[begin..]);
    parts
}

fn is_bare_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, millis) in [
            ("500ms", 500),
            (" 2s ", 2_000),
            ("1m 30s", 90_000),
            ("1h", 3_600_000),
            ("1.5s", 1_500),
            ("1m30s2ms", 90_002),
            ("3600000000000000ns", 3_600_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn long_durations_are_shown_in_days_and_hours() {
        for (seconds, text) in [
            (90, "90s"),
            (3_600, "1h"),
            (5_430, "1h 30m 30s"),
            (86_400, "24h"),
            (172_800, "2days"),
            (400 * 86_400, "400days"),
            (400 * 86_400 + 7_260, "400days 2h 1m"),
        ] {
            let duration = Duration::from_secs(seconds);
            assert_eq!((shown(duration), parse(text)), (text.to_owned(), Ok(duration)));
        }
        assert_eq!(shown(Duration::from_millis(2_500)), "2.5s");
        assert_eq!(shown(Duration::from_millis(3_600_010)), "1h 10ms");
    }

    #[test]
    fn what_is_no_duration_says_what_to_write() {
        for (text, part) in [
            ("500", "`500ms` or `500s`"),
            ("0", "add a unit"),
            ("0s", "is zero"),
            ("", "is missing"),
            ("5 parsecs", "is not a duration"),
            ("-5s", "is not a duration"),
            ("soon", "is not a duration"),
            ("18446744073709551615s 1000ms", "it is too long"),
            ("584542046090y 19767615s 1000ms", "it is too long"),
            ("18446744073709 551615s 1000ms", "it is too long"),
            ("1s 500", "is not a duration"),
            ("1m -5s", "is not a duration"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
