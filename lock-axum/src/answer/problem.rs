//! Makes the headers and the document of an answer: `application/problem+json` (RFC 9457).

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::outcome::{Outcome, Text};

/// The longest time in `Retry-After`.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);

/// The content of an answer to a request that was not served.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) outcome: Outcome,
    pub(super) status: StatusCode,
    pub(super) detail: Option<Cow<'static, str>>,
    /// The template of the key, if the client may see one.
    pub(super) lock: Option<Box<str>>,
    pub(super) retry_after: Option<Duration>,
    /// A random number from 0 to 1. It selects the random part that the answer adds to `retry_after`.
    pub(super) jitter: f64,
    pub(super) waited: Option<Duration>,
    pub(super) close: bool,
}

impl Problem {
    pub(super) fn detail(&self) -> &str {
        self.detail.as_deref().unwrap_or(self.outcome.text().detail)
    }

    /// Returns the time after which the client may retry. Up to a quarter is added at random, so that clients that were
    /// refused together do not retry together.
    pub(super) fn told_retry_after(&self) -> Option<Duration> {
        self.retry_after.map(|after| after + (after / 4).mul_f64(self.jitter))
    }

    pub(super) fn write_headers(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(after, self.jitter)));
        }
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }

    pub(super) fn document(&self) -> String {
        let mut json = String::with_capacity(256);
        let Text { kind, title, .. } = self.outcome.text();
        json.push_str("{\"type\":");
        write_text(&mut json, kind);
        json.push_str(",\"title\":");
        write_text(&mut json, title);
        json.push_str(",\"status\":");
        json.push_str(self.status.as_str());
        json.push_str(",\"detail\":");
        write_text(&mut json, self.detail());
        if let Some(lock) = &self.lock {
            json.push_str(",\"lock\":");
            write_text(&mut json, lock);
        }
        for (name, time) in [("retry_after_ms", self.told_retry_after()), ("waited_ms", self.waited)] {
            if let Some(time) = time {
                write!(json, ",\"{name}\":{}", time.as_millis())
                    .expect("BUG: writing to a String does not fail");
            }
        }
        json.push('}');
        json
    }
}

/// Returns `after` in whole seconds for `Retry-After`, at least 1. The time is rounded up, so that no client retries
/// too early. `jitter` (0 to 1) then adds up to a quarter, or up to a second if that is more. Whole seconds are added,
/// because a fraction could disappear when the time is rounded. Near the limit, the smallest result is below `after`.
/// Otherwise all clients would get the limit, and would retry together.
fn seconds(after: Duration, jitter: f64) -> u64 {
    let longest = LONGEST.as_secs();
    let up = u64::from(after.subsec_nanos() > 0);
    let least = after.as_secs().saturating_add(up).clamp(1, longest);
    let most = (least / 4).max(1);
    let added = Duration::from_secs(most + 1).mul_f64(jitter).as_secs().min(most);
    least.min(longest - most) + added
}

/// Writes `text` as a JSON string.
fn write_text(json: &mut String, text: &str) {
    json.push('"');
    for char in text.chars() {
        match char {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\0'..='\x1f' => {
                write!(json, "\\u{:04x}", u32::from(char)).expect("BUG: writing to a String does not fail");
            }
            _ => json.push(char),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_rounded_up_and_bounded() {
        for (millis, least, most) in [
            (0, 1, 2),
            (1, 1, 2),
            (999, 1, 2),
            (1_000, 1, 2),
            (1_001, 2, 3),
            (8_000, 8, 10),
            (24_000, 24, 30),
            (29_001, 23, 30),
            (30_000, 23, 30),
            (90_000, 23, 30),
        ] {
            let after = Duration::from_millis(millis);
            assert_eq!((seconds(after, 0.0), seconds(after, 1.0)), (least, most), "{millis} ms");
        }
    }

    #[test]
    fn every_estimate_gives_several_values_of_retry_after() {
        for millis in [1, 1_000, 1_500, 4_000, 8_000, 29_001, 30_000] {
            let mut counts = std::collections::BTreeMap::new();
            for at in 0..1_000 {
                let seconds = seconds(Duration::from_millis(millis), f64::from(at) / 1_000.0);
                *counts.entry(seconds).or_insert(0) += 1;
            }
            let (values, most) = (counts.len(), counts.values().max().copied().unwrap_or_default());
            assert!(values > 1 && most <= 1_000 / values + 1, "{millis} ms: {counts:?}");
        }
    }

    #[test]
    fn text_is_json() {
        let mut json = String::new();
        write_text(&mut json, "a\"b\\c\n\u{1}é<");
        assert_eq!(json, r#""a\"b\\c\u000a\u0001é<""#);
    }
}
