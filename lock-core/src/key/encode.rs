//! Encodes the values of placeholders.

use std::fmt;

/// Returns whether an encoded value can contain `byte`. An encoded value contains only `%` and the unreserved
/// characters: letters, digits and marks.
pub(super) fn can_be_in_value(byte: u8) -> bool {
    is_unreserved(byte) || byte == b'%'
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || is_mark(byte)
}

/// Returns whether `byte` is a mark: an unreserved character that is not a letter or a digit. A `%` encoding contains
/// no mark.
fn is_mark(byte: u8) -> bool {
    matches!(byte, b'.' | b'_' | b'~' | b'-')
}

/// Describes how the text between two placeholders separates their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    /// The text contains a character that no encoded value contains.
    Hard,
    /// The text separates the values only by this mark. So the value after the text must encode the mark.
    Mark(u8),
    /// The text does not separate the values: `("ab", "c")` and `("a", "bc")` would result in the same key.
    None,
}

impl Boundary {
    /// Returns how `literal` separates the values before and after it.
    ///
    /// If the separator is a mark, the value after `literal` encodes that mark. So the last such mark in the rendered
    /// text belongs to `literal`, even if the value before it contains the same mark.
    pub(super) fn in_literal(literal: &str) -> Self {
        if literal.bytes().any(|byte| !can_be_in_value(byte)) {
            return Self::Hard;
        }
        literal.bytes().rev().find(|byte| is_mark(*byte)).map_or(Self::None, Self::Mark)
    }

    fn forbids(self, byte: u8) -> bool {
        self == Self::Mark(byte)
    }
}

/// A writer that encodes text byte by byte, and appends the result to `out`.
#[derive(Debug)]
pub(super) struct Encoder<'a> {
    out: &'a mut String,
    boundary: Boundary,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(out: &'a mut String, boundary: Boundary) -> Self {
        Self { out, boundary }
    }
}

impl fmt::Write for Encoder<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        for byte in text.bytes() {
            if is_unreserved(byte) && !self.boundary.forbids(byte) {
                self.out.push(char::from(byte));
            } else {
                self.out.push('%');
                self.out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                self.out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::template::separates;

    /// The parser of templates and the encoder of keys both look for a single byte. So it is enough to compare them for
    /// each byte.
    #[test]
    fn a_template_needs_a_separator_where_a_key_does() {
        for byte in (0..=255).map(char::from) {
            let literal = byte.to_string();
            assert_eq!(separates(&literal), Boundary::in_literal(&literal) != Boundary::None, "{byte:?}");
        }
        assert!(!separates("") && Boundary::in_literal("") == Boundary::None);
    }
}
