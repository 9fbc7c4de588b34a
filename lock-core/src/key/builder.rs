//! Defines [`KeyBuilder`], which renders a key piece by piece.

use std::fmt::{Display, Write};

use super::Key;
use super::encode::{Boundary, Encoder};
use crate::error::{LockError, LockErrorKind, Result};

/// Renders a key from literals and values, in the order of the calls.
///
/// # Examples
///
/// ```
/// use lock_core::key::KeyBuilder;
///
/// let key = KeyBuilder::new().literal("order:").value(&42).literal(":").value(&"a b").finish()?;
/// assert_eq!(key.as_str(), "order:42:a%20b");
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `finish`"]
pub struct KeyBuilder {
    text: String,
    /// The position in `text` where the last value ends. `None` means that no value was added.
    value_end: Option<usize>,
    failure: Option<&'static str>,
}

impl KeyBuilder {
    /// Creates a builder without any text.
    pub fn new() -> Self {
        Self { text: String::with_capacity(64), value_end: None, failure: None }
    }

    /// Adds fixed text, which is not encoded.
    pub fn literal(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Adds a value, which is encoded while it is formatted.
    pub fn value(mut self, value: &dyn Display) -> Self {
        let boundary = self.value_end.map_or(Boundary::Hard, |end| Boundary::in_literal(&self.text[end..]));
        if boundary == Boundary::None {
            self.failure = Some("no text between two placeholders keeps their values apart: put a `:` there");
        }
        if write!(Encoder::new(&mut self.text, boundary), "{value}").is_err() {
            self.failure = Some("the `Display` of a placeholder's value reported an error: it must not fail");
        }
        self.value_end = Some(self.text.len());
        self
    }

    /// Returns the key.
    ///
    /// # Errors
    ///
    /// [`LockErrorKind::InvalidKey`] if nothing was rendered, if no text between two values separates them (see the
    /// [module](super)), or if a value's `Display` failed.
    pub fn finish(self) -> Result<Key> {
        match self.failure {
            Some(failure) => Err(LockError::new(LockErrorKind::InvalidKey, failure)),
            None => Key::from_rendered(&self.text),
        }
    }
}
