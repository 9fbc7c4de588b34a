//! Defines the content of a configuration before its values are parsed.

use std::collections::BTreeMap;
use std::fmt;

use super::mistake::Origin;
use crate::words::option::{OF_ONE_CALL, OF_PROFILES_ONLY, OPTIONS};
use crate::words::suggest::{list, nearest};
use crate::words::synonyms;

/// The words for the two parts of the option `backoff`.
pub(super) const BACKOFF_BASE: &str = "backoff_base";
pub(super) const BACKOFF_MAX: &str = "backoff_max";

/// A value in a configuration, before it is parsed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A string in the file.
    Text(String),
    Number(String),
    Flag(bool),
    /// The text of an environment variable, which has no type.
    Variable(String),
    /// A value of a type that no option accepts, described for an error text.
    Other(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "`{text:?}`"),
            Self::Number(text) | Self::Variable(text) => write!(f, "`{text}`"),
            Self::Flag(flag) => write!(f, "`{flag}`"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) origin: Origin,
    pub(super) value: Value,
}

/// The options of one profile in one source. The map is keyed by the word of the option.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The place where the profile begins.
    pub(super) begin: Option<Origin>,
    pub(super) entries: BTreeMap<&'static str, Entry>,
}

impl Written {
    /// Returns the place where `option` is written, if it is set.
    pub(super) fn origin_of(&self, option: &str) -> Option<&Origin> {
        let part = || self.entries.iter().find(|(word, _)| word.starts_with(option) && option == "backoff");
        let entry = self.entries.get(option).or_else(|| part().map(|(_, entry)| entry));
        entry.map(|entry| &entry.origin)
    }
}

/// Returns the words of all options of a profile.
pub(super) fn words() -> impl Iterator<Item = &'static str> {
    let of_both = OPTIONS.iter().filter(|(word, _)| !OF_ONE_CALL.contains(word));
    of_both.chain(OF_PROFILES_ONLY).map(|(word, _)| *word)
}

/// Returns the syntax of the option `word` in a file, for an error text.
pub(super) fn form(word: &str) -> String {
    let form = OPTIONS.iter().chain(OF_PROFILES_ONLY).find(|(option, _)| *option == word);
    let form = form.map_or("", |(_, form)| form);
    match form.strip_suffix(')').and_then(|form| form.split_once('(')) {
        Some((name, parts)) => format!("{name} = {{ {parts} }}"),
        None => form.to_owned(),
    }
}

/// Returns the error text for a `word` that is not an option of a profile.
pub(super) fn unknown(word: &str) -> String {
    let all = list(words());
    if OF_ONE_CALL.contains(&word) {
        return format!(
            "`{word}` belongs to one function or one request, and not to a profile; options: {all}"
        );
    }
    let leads_here = |hint: &&str| {
        let named = hint.split('`').nth(1).unwrap_or_default();
        words().any(|word| named.split([' ', '(']).next() == Some(word))
    };
    let near = match (synonyms::option(word).filter(leads_here), nearest(word, words())) {
        (Some(hint), _) => hint.to_owned(),
        (None, Some(near)) => format!("; did you mean `{}`?", form(near)),
        (None, None) => String::new(),
    };
    format!("unknown option `{word}`{near}; options: {all}")
}
