//! Reads profiles from a file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::mistake::{Mistakes, Origin};
use super::written::{BACKOFF_BASE, BACKOFF_MAX, Entry, Value, Written, form, unknown, words};
use crate::words::suggest::did_you_mean;

/// The name of the only table that a file may contain.
const PROFILE: &str = "profile";

/// A file, its text and the positions of its line breaks.
struct File<'a> {
    name: Arc<str>,
    text: &'a str,
    /// The positions of the line breaks. They are computed once, because a file may have a mistake in every line.
    breaks: Vec<usize>,
}

impl<'a> File<'a> {
    fn new(name: &str, text: &'a str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at).collect();
        Self { name: name.into(), text, breaks }
    }

    fn origin_of(&self, span: Range<usize>) -> Origin {
        let before = self.breaks.partition_point(|at| *at < span.start);
        Origin::Line(Arc::clone(&self.name), before + 1)
    }

    fn line(&self, origin: &Origin) -> &str {
        let Origin::Line(_, line) = origin else { return "" };
        let from = line.checked_sub(2).and_then(|at| self.breaks.get(at)).map_or(0, |at| at + 1);
        let to = self.breaks.get(line - 1).copied().unwrap_or(self.text.len());
        self.text.get(from..to).unwrap_or_default().trim()
    }
}

/// Reads the profiles of a file. A wrong line is reported as a mistake, and the other lines are still read.
pub(super) fn read(name: &str, text: &str, mistakes: &mut Mistakes) -> BTreeMap<String, Written> {
    let file = File::new(name, text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let origin = file.origin_of(error.span().unwrap_or_default());
        let detail = format!("`{}`: {}", file.line(&origin), error.message());
        mistakes.add(Some(&origin), detail);
    }
    let mut profiles = BTreeMap::new();
    for (word, value) in table.get_ref() {
        let origin = file.origin_of(word.span());
        match value.get_ref() {
            DeValue::Table(named) if word.get_ref() == PROFILE => {
                for (name, value) in named {
                    let written = profile(&file, name, value, mistakes);
                    profiles.extend(written.map(|written| (name.get_ref().to_string(), written)));
                }
            }
            _ if word.get_ref() == PROFILE => {
                let text = "`profile` has the names of profiles: write `[profile.checkout]`";
                mistakes.add(Some(&origin), text);
            }
            _ => {
                let word = word.get_ref();
                let near = did_you_mean(word, [PROFILE]);
                let text = format!("unknown word `{word}`{near}; a file has tables `[profile.checkout]`");
                mistakes.add(Some(&origin), text);
            }
        }
    }
    profiles
}

fn profile(
    file: &File<'_>,
    name: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    mistakes: &mut Mistakes,
) -> Option<Written> {
    let begin = file.origin_of(name.span());
    let DeValue::Table(options) = value.get_ref() else {
        // If the file lacks the name of the profile, `name` is the name of an option.
        let name = name.get_ref();
        let text = format!("profile `{name}` takes options: write `[profile.{name}]`, and one option a line");
        mistakes.add(Some(&begin), text);
        return None;
    };
    if name.get_ref().trim().is_empty() {
        mistakes.add(Some(&begin), "a profile has no name: write one such as `[profile.checkout]`");
        return None;
    }
    let mut written = Written { begin: Some(begin), ..Written::default() };
    for (word, value) in options {
        option(file, word, value, &mut written, mistakes);
    }
    Some(written)
}

fn option(
    file: &File<'_>,
    word: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    written: &mut Written,
    mistakes: &mut Mistakes,
) {
    let origin = file.origin_of(word.span());
    let name: &str = word.get_ref();
    let Some(known) = words().find(|known| *known == name) else {
        mistakes.add(Some(&origin), unknown(name));
        return;
    };
    match (known, value.get_ref()) {
        ("backoff", DeValue::Table(parts)) => backoff(file, parts, written, mistakes),
        ("backoff", _) => {
            let text = format!("`backoff` has parts: write `{}`", form("backoff"));
            mistakes.add(Some(&origin), text);
        }
        (known, value) => {
            let entry = Entry { origin, value: plain(value) };
            written.entries.insert(known, entry);
        }
    }
}

/// Reads the parts of the option `backoff`.
fn backoff(file: &File<'_>, parts: &DeTable<'_>, written: &mut Written, mistakes: &mut Mistakes) {
    for (part, value) in parts {
        let origin = file.origin_of(part.span());
        let known = match part.get_ref().as_ref() {
            "base" => BACKOFF_BASE,
            "max" => BACKOFF_MAX,
            other => {
                let near = did_you_mean(other, ["base", "max"]);
                let text = format!("unknown part `{other}` of `backoff`{near}; parts: `base`, `max`");
                mistakes.add(Some(&origin), text);
                continue;
            }
        };
        let entry = Entry { origin, value: plain(value.get_ref()) };
        written.entries.insert(known, entry);
    }
}

fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Value::Number(number.as_str().to_owned()),
        DeValue::Integer(_) => Value::Other("a number that is not decimal"),
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(_) => Value::Other("a list"),
        DeValue::Table(_) => Value::Other("a table"),
    }
}
