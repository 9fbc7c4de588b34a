//! Renders the label of a lock, which describes its purpose.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

/// The maximum length of a label in bytes. There is a limit, because a part of the label may come from a client, and
/// the store keeps the whole label with the lock.
const LONGEST: usize = 256;

/// The end of a truncated label.
const CUT: char = '…';

/// Truncates a label that is too long. A label is only for human readers, so it must not cause a request to fail.
pub(crate) fn fit(label: Cow<'static, str>) -> Cow<'static, str> {
    if label.len() <= LONGEST {
        return label;
    }
    let mut short = start(&label, LONGEST - CUT.len_utf8()).to_owned();
    short.push(CUT);
    Cow::Owned(short)
}

/// Returns the longest prefix of at most `length` bytes that does not end inside a character.
pub(crate) fn start(text: &str, length: usize) -> &str {
    let end = (0..=length.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Renders a label from text and values, in the order of the calls. Values are not encoded, because different values
/// may have the same label.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LabelBuilder(String);

impl LabelBuilder {
    /// Creates a builder without any text.
    pub fn new() -> Self {
        Self(String::with_capacity(64))
    }

    /// Adds fixed text.
    pub fn literal(mut self, text: &str) -> Self {
        self.0.push_str(text);
        self
    }

    /// Adds a value, up to the maximum length of a label. If its `Display` fails, the text that it has written before
    /// stays in the label.
    pub fn value(mut self, value: &dyn Display) -> Self {
        let _ = write!(UpToLongest(&mut self.0), "{value}");
        self
    }

    /// Returns the label.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

/// A writer that stops the formatting of a value when the label is too long.
struct UpToLongest<'a>(&'a mut String);

impl Write for UpToLongest<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The text may exceed the maximum by a few bytes, so that `fit` detects that the label must be truncated.
        let fits = start(text, (LONGEST + 4).saturating_sub(self.0.len()));
        self.0.push_str(fits);
        if fits.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_is_too_long_is_cut_between_characters() {
        for (label, fits) in [
            (String::new(), None),
            ("pay".to_owned(), None),
            ("x".repeat(LONGEST), None),
            ("x".repeat(LONGEST + 1), Some("x".repeat(LONGEST - 3) + "…")),
            ("é".repeat(LONGEST), Some("é".repeat((LONGEST - 3) / 2) + "…")),
        ] {
            let short = fit(label.clone().into());
            assert_eq!(*short, *fits.unwrap_or(label));
            assert!(short.len() <= LONGEST);
        }
    }

    #[test]
    fn a_long_value_is_not_formatted_to_its_end() {
        struct Endless;
        impl Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("é")?;
                }
            }
        }
        let label = LabelBuilder::new().literal("user ").value(&7).literal(" ").value(&Endless).finish();
        assert!(label.starts_with("user 7 éé") && label.len() <= LONGEST + 4, "{label}");
        assert!(fit(label.into()).ends_with("é…"));
        assert_eq!(LabelBuilder::new().value(&"x".repeat(9_000)).literal("end").finish().len(), LONGEST + 7);
    }
}
