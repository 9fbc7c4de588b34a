//! Parses options whose value is one of two words.

use super::suggest::did_you_mean;

/// A value of the option `on_lost`, which decides what happens to the body when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLostWord {
    Cancel,
    Finish,
}

impl OnLostWord {
    const ALL: [(&'static str, Self); 2] = [("cancel", Self::Cancel), ("finish", Self::Finish)];

    /// Returns the list of values, for an error.
    pub(crate) fn forms() -> String {
        forms(Self::ALL)
    }

    /// Reads the value.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse("on_lost", text, Self::ALL)
    }
}

/// A value of the option `release`, which decides whether the caller waits for the release after the body has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseWord {
    Await,
    Background,
}

impl ReleaseWord {
    const ALL: [(&'static str, Self); 2] = [("await", Self::Await), ("background", Self::Background)];

    /// Returns the list of values, for an error.
    pub(crate) fn forms() -> String {
        forms(Self::ALL)
    }

    /// Reads the value.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        parse("release", text, Self::ALL)
    }
}

fn forms<T>(all: [(&'static str, T); 2]) -> String {
    let [one, other] = all.map(|(word, _)| word);
    format!("`\"{one}\"` or `\"{other}\"`")
}

fn parse<T: Copy>(option: &str, text: &str, all: [(&'static str, T); 2]) -> Result<T, String> {
    let found = all.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let near = did_you_mean(text, all.map(|(word, _)| word));
        format!("unknown value `{text}`{near}\n`{option}` is {}", forms(all))
    })
}
