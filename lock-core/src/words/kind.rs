//! Defines the words of the option `kind`.

use super::suggest::{did_you_mean, list};
use super::synonyms;

/// A word of the option `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindWord {
    Reentrant,
    Fair,
    Read,
    Write,
    Semaphore,
}

/// The names of the kinds in other libraries. These words are not accepted, but the error suggests the word that this
/// library uses.
const SYNONYMS: [(&str, KindWord); 7] = [
    ("exclusive", KindWord::Reentrant),
    ("lock", KindWord::Reentrant),
    ("mutex", KindWord::Reentrant),
    ("fifo", KindWord::Fair),
    ("queue", KindWord::Fair),
    ("shared", KindWord::Read),
    ("permits", KindWord::Semaphore),
];

impl KindWord {
    const ALL: [Self; 5] = [Self::Reentrant, Self::Fair, Self::Read, Self::Write, Self::Semaphore];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reentrant => "reentrant",
            Self::Fair => "fair",
            Self::Read => "read",
            Self::Write => "write",
            Self::Semaphore => "semaphore",
        }
    }

    /// Returns the list of words, for an error text.
    pub(crate) fn list() -> String {
        list(Self::ALL.map(Self::name))
    }

    /// Parses the value of the option.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|word| word.name() == text).ok_or_else(|| {
            let near = match (SYNONYMS.iter().find(|(other, _)| *other == text), synonyms::kind(text)) {
                (Some((_, word)), _) => format!("; did you mean `{}`?", word.name()),
                (None, Some(hint)) => hint.to_owned(),
                (None, None) => did_you_mean(text, Self::ALL.map(Self::name)),
            };
            format!("unknown kind `{text}`{near}\nkinds: {}", Self::list())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synonym_is_not_a_kind() {
        for (word, _) in SYNONYMS {
            assert!(KindWord::ALL.iter().all(|kind| kind.name() != word), "{word}");
        }
    }
}
