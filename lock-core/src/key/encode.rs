//! Encodes the values of placeholders.

use std::fmt;

/// Returns whether an encoded value can contain `byte`. It can contain unreserved characters, and `%` before two
/// hexadecimal digits.
pub(super) fn can_be_in_value(byte: u8) -> bool {
    is_unreserved(byte) || byte == b'%'
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || is_mark(byte)
}

/// Returns whether `byte` is an unreserved character other than a letter or a digit. The encoding of a byte never
/// contains one.
fn is_mark(byte: u8) -> bool {
    matches!(byte, b'.' | b'_' | b'~' | b'-')
}

/// How the text between two placeholders separates their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    /// The text contains a character that no encoded value contains.
    Hard,
    /// The only separating character in the text is this mark. It must be encoded in the value after the text.
    Mark(u8),
    /// The text separates nothing: `("ab", "c")` and `("a", "bc")` would result in the same key.
    None,
}

impl Boundary {
    /// Returns how `literal` separates the values before and after it.
    ///
    /// Read such a key from the right: the first mark is the one in `literal`, because the value after it contains
    /// none. So it is enough to encode the mark in that value, whatever the value before contains.
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

/// Encodes the written text byte by byte, and appends the result to another text.
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
