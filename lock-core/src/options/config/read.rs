//! Parses the words and values of a configuration into options, with the same parsers as the attribute.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::mistake::Mistakes;
use super::written::{BACKOFF_BASE, BACKOFF_MAX, Entry, Value, Written, form};
use crate::kind::Kind;
use crate::options::Options;
use crate::options::on_lost::OnLost;
use crate::options::options::all_options;
use crate::options::release::Release;
use crate::strategy::{Backoff, NamedStrategy, Strategy};
use crate::words::choice::{OnLostWord, ReleaseWord};
use crate::words::duration;
use crate::words::kind::KindWord;
use crate::words::strategy::StrategyWord;

/// The parsed value, or the text of its mistake.
type Read<T> = Result<T, String>;

/// Reads the options of a profile, except its [kind](kind()) and [`take`](take()). `beneath` is the source that
/// `written` overrides: if `written` sets only one part of `backoff`, the other part is read from `beneath`.
pub(super) fn options(written: &Written, beneath: &Written, mistakes: &mut Mistakes) -> Options {
    let mut reader = Reader { written, mistakes };
    let backoff = reader.backoff(beneath);
    Options { backoff, ..reader.by_type() }
}

/// An option type whose values can be read from a configuration.
trait FromValue: Sized {
    fn read(option: &str, value: &Value) -> Read<Self>;
}

impl FromValue for Duration {
    fn read(option: &str, value: &Value) -> Read<Self> {
        time(option, value)
    }
}

impl FromValue for usize {
    fn read(option: &str, value: &Value) -> Read<Self> {
        number(option, value).map(|number| number as Self)
    }
}

impl FromValue for bool {
    fn read(option: &str, value: &Value) -> Read<Self> {
        match value {
            Value::Flag(flag) => Ok(*flag),
            Value::Variable(text) if text == "true" => Ok(true),
            Value::Variable(text) if text == "false" => Ok(false),
            other => Err(expected(option, "`true` or `false`", other)),
        }
    }
}

impl FromValue for Arc<dyn Strategy> {
    fn read(option: &str, value: &Value) -> Read<Self> {
        let word = StrategyWord::parse(text(option, value)?)?;
        Ok(Arc::new(NamedStrategy::from_word(word)))
    }
}

impl FromValue for OnLost {
    fn read(option: &str, value: &Value) -> Read<Self> {
        Ok(match OnLostWord::parse(text(option, value)?)? {
            OnLostWord::Cancel => Self::Cancel,
            OnLostWord::Finish => Self::Finish,
        })
    }
}

impl FromValue for Release {
    fn read(option: &str, value: &Value) -> Read<Self> {
        Ok(match ReleaseWord::parse(text(option, value)?)? {
            ReleaseWord::Await => Self::Await,
            ReleaseWord::Background => Self::Background,
        })
    }
}

/// Reads a text, which must not be blank.
impl FromValue for Cow<'static, str> {
    fn read(option: &str, value: &Value) -> Read<Self> {
        match text(option, value)? {
            blank if blank.trim().is_empty() => {
                Err(format!("`{option}` is empty: write a text, or remove it"))
            }
            text => Ok(Self::Owned(text.to_owned())),
        }
    }
}

/// Reads `kind` and `permits`, which form one option, even if they come from two sources. If `written` has a kind other
/// than `semaphore`, the permits of `beneath` are ignored.
pub(super) fn kind(written: &Written, beneath: &Written, mistakes: &mut Mistakes) -> Option<Kind> {
    let [own_kind, own_permits] = ["kind", "permits"].map(|word| written.entries.get(word));
    let [their_kind, their_permits] = ["kind", "permits"].map(|word| beneath.entries.get(word));
    let mut take = |entry: Option<&Entry>, text: String| mistakes.add(entry.map(|entry| &entry.origin), text);
    let named = own_kind.or(their_kind);
    let word = match named.map(|entry| text("kind", &entry.value).and_then(KindWord::parse)) {
        Some(Err(text)) => {
            take(named, text);
            return None;
        }
        Some(Ok(word)) => Some(word),
        None => None,
    };
    let is_semaphore = word == Some(KindWord::Semaphore);
    let permits = own_permits.or(their_permits.filter(|_| own_kind.is_none() || is_semaphore));
    let count = match permits.map(|entry| number("permits", &entry.value)) {
        Some(Err(text)) => {
            take(permits, text);
            return None;
        }
        Some(Ok(count)) => Some(count),
        None => None,
    };
    let wrong = match (word, count) {
        (Some(KindWord::Semaphore), Some(permits)) => return Some(Kind::Semaphore { permits }),
        (Some(KindWord::Reentrant), None) => return Some(Kind::Reentrant),
        (Some(KindWord::Fair), None) => return Some(Kind::Fair),
        (Some(KindWord::Read), None) => return Some(Kind::Read),
        (Some(KindWord::Write), None) => return Some(Kind::Write),
        (None, None) => return None,
        (Some(KindWord::Semaphore), None) => {
            format!("`kind = \"semaphore\"` needs `permits`: add one such as `{}`", form("permits"))
        }
        (None, Some(_)) => {
            "`permits` goes with `kind = \"semaphore\"` only: add that, or remove `permits`".to_owned()
        }
        (Some(word), Some(_)) => format!(
            "`permits` cannot be combined with `kind = \"{}\"`: remove `permits`, or write `kind = \"semaphore\"`",
            word.name()
        ),
    };
    take(permits.or(named), wrong);
    None
}

/// Reads `take` from `written`, or otherwise from `beneath`. If `written` names a kind that is not a semaphore, the
/// value of `beneath` is ignored. `kind` is the result of [`kind`].
pub(super) fn take(
    written: &Written,
    beneath: &Written,
    kind: Option<Kind>,
    mistakes: &mut Mistakes,
) -> Option<u32> {
    let is_written = |word| written.entries.contains_key(word) || beneath.entries.contains_key(word);
    if kind.is_none() && (is_written("kind") || is_written("permits")) {
        // The value of `kind` or `permits` is wrong, and the mistake has already been reported. So `take` is not read.
        return None;
    }
    let is_semaphore = matches!(kind, Some(Kind::Semaphore { .. }));
    let theirs =
        beneath.entries.get("take").filter(|_| is_semaphore || !written.entries.contains_key("kind"));
    let entry = written.entries.get("take").or(theirs)?;
    let read = number("take", &entry.value);
    read.map_err(|text| mistakes.add(Some(&entry.origin), text)).ok()
}

struct Reader<'a> {
    written: &'a Written,
    mistakes: &'a mut Mistakes,
}

macro_rules! read {
    (by_type { $($(#[$doc:meta])* $option:ident: $type:ty,)* } $($other:tt)*) => {
        impl Reader<'_> {
            /// Reads each option whose type implements `FromValue`.
            fn by_type(&mut self) -> Options {
                Options { $($option: self.option(stringify!($option)),)* ..Options::default() }
            }
        }
    };
}

all_options!(read);

impl Reader<'_> {
    /// Reads the value of `option`. If the value is wrong, reports a mistake and returns `None`.
    fn option<T: FromValue>(&mut self, option: &str) -> Option<T> {
        let entry = self.written.entries.get(option)?;
        self.take(entry, T::read(option, &entry.value))
    }

    fn take<T>(&mut self, entry: &Entry, read: Read<T>) -> Option<T> {
        read.map_err(|text| self.mistakes.add(Some(&entry.origin), text)).ok()
    }

    /// Reads `backoff` from its two parts. Returns `None` if `written` has no part of it, or if a value is wrong.
    fn backoff(&mut self, beneath: &Written) -> Option<Backoff> {
        let own = [BACKOFF_BASE, BACKOFF_MAX].map(|part| self.written.entries.get(part));
        if own == [None, None] {
            return None;
        }
        let [base, max] = [BACKOFF_BASE, BACKOFF_MAX].map(|part| {
            let entry = self.written.entries.get(part).or_else(|| beneath.entries.get(part));
            entry.map(|entry| (entry, self.take(entry, time("backoff", &entry.value))))
        });
        let value = |part: Option<(&Entry, Option<Duration>)>, default| match part {
            None => Some(default),
            Some((_, value)) => value,
        };
        let (first, longest) = (value(base, Backoff::DEFAULT_BASE)?, value(max, Backoff::DEFAULT_MAX)?);
        if first > longest {
            let text = format!(
                "the `base` of `backoff` is {first:?}, longer than its `max` {longest:?}: change one of them"
            );
            let entry = own.into_iter().flatten().next();
            self.mistakes.add(entry.map(|entry| &entry.origin), text);
            return None;
        }
        Some(Backoff::exponential(first, longest))
    }
}

/// Returns the error text for a value of the wrong type.
fn expected(option: &str, takes: &str, value: &Value) -> String {
    format!("`{option}` takes {takes}, not {value}: write `{}`", form(option))
}

fn text<'a>(option: &str, value: &'a Value) -> Read<&'a str> {
    match value {
        Value::Text(text) | Value::Variable(text) => Ok(text),
        other => {
            let takes = match option {
                "on_lost" => OnLostWord::forms(),
                "release" => ReleaseWord::forms(),
                "kind" => format!("the name of a kind as a string ({})", KindWord::list()),
                "strategy" => format!("the name of a strategy as a string ({})", StrategyWord::list()),
                _ => "a string".to_owned(),
            };
            Err(expected(option, &takes, other))
        }
    }
}

fn text_of_time<'a>(option: &str, value: &'a Value) -> Read<&'a str> {
    match value {
        Value::Text(text) | Value::Variable(text) => Ok(text),
        Value::Number(number) => Err(format!(
            "`{option}` takes a string with a unit, not `{number}`: write `{option} = \"{number}ms\"` or `{option} = \
             \"{number}s\"`"
        )),
        other => Err(expected(option, "a string with a unit", other)),
    }
}

fn time(option: &str, value: &Value) -> Read<Duration> {
    duration::parse_option(option, text_of_time(option, value)?)
        .map_err(|error| format!("`{option}`: {error}"))
}

fn number(option: &str, value: &Value) -> Read<u32> {
    let takes = || expected(option, &format!("a whole number from 1 to {}", u32::MAX), value);
    let (Value::Number(digits) | Value::Variable(digits)) = value else { return Err(takes()) };
    digits.trim().parse().ok().filter(|number| *number > 0).ok_or_else(takes)
}
