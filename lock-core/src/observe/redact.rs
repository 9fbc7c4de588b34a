//! Formats keys and errors for the log.

use std::fmt;

use crate::error::LockError;
use crate::key::Key;

/// A key, or the template that the log shows instead. Control characters are escaped, because a key may come from an
/// untrusted source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RedactedKey<'a> {
    Key(&'a Key),
    Hidden(Option<&'a str>),
}

impl fmt::Display for RedactedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.as_str().escape_debug().fmt(f),
            Self::Hidden(template) => f.write_str(template.unwrap_or("hidden")),
        }
    }
}

/// An error. If its text must be hidden, the log shows only its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedactedError<'a> {
    error: &'a LockError,
    hidden: bool,
}

impl<'a> RedactedError<'a> {
    pub(super) fn new(error: &'a LockError, hidden: bool) -> Self {
        Self { error, hidden }
    }
}

impl fmt::Display for RedactedError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hidden { write!(f, "{:?}", self.error.kind()) } else { self.error.fmt(f) }
    }
}
