//! Collects the mistakes in a configuration, with their places.

use std::fmt;
use std::sync::Arc;

use crate::error::{LockError, LockErrorKind};

/// The place of a text in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The name of a file, and a line, counted from 1.
    Line(Arc<str>, usize),
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{file}:{line}"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Mistakes(Vec<(Option<Origin>, String)>);

impl Mistakes {
    /// Adds a mistake. Ignores a second mistake at the same place, because it may be a consequence of the first.
    pub(super) fn add(&mut self, origin: Option<&Origin>, text: impl Into<String>) {
        if origin.is_some() && self.0.iter().any(|(other, _)| other.as_ref() == origin) {
            return;
        }
        // The parsers of words put the allowed values on a separate line, but a mistake has one line.
        self.0.push((origin.cloned(), text.into().replace('\n', "; ")));
    }

    /// Returns all mistakes in one error, sorted by place, or `value` if there are no mistakes.
    pub(super) fn or<T>(mut self, value: T) -> Result<T, LockError> {
        self.0.sort();
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|(origin, text)| match origin {
                Some(origin) => format!("{origin}: {text}"),
                None => text.clone(),
            })
            .collect();
        match &lines[..] {
            [] => Ok(value),
            [one] => Err(LockError::new(LockErrorKind::InvalidRequest, one.clone())),
            all => {
                let detail = format!("the configuration has {} mistakes:\n{}", all.len(), all.join("\n"));
                Err(LockError::new(LockErrorKind::InvalidRequest, detail))
            }
        }
    }
}
