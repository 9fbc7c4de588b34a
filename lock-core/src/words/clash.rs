//! Finds a key that two templates can both render.
//!
//! Each template is an automaton that reads a key byte by byte. The search finds the shortest key that both automata
//! accept.

use std::collections::HashSet;
use std::ops::RangeInclusive;

/// A part of a template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    /// Fixed text, which is the same in every key.
    Text(&'a str),
    /// An encoded value.
    Value(Values),
}

/// The characters that the values of a placeholder consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Any text, even the empty text.
    Text,
    /// The digits of a number without a sign.
    Unsigned,
    /// The digits of a number, with or without a leading `-`.
    Signed,
    /// The lower-case hexadecimal digits and hyphens of a UUID.
    Uuid,
}

impl Values {
    /// Returns whether `byte` can occur in a value. `at_start` is whether it is the first byte of the value.
    fn has(self, byte: u8, at_start: bool) -> bool {
        match self {
            Self::Text => true,
            Self::Unsigned => byte.is_ascii_digit(),
            Self::Signed => byte.is_ascii_digit() || (byte == b'-' && at_start),
            Self::Uuid => matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'),
        }
    }

    fn may_be_empty(self) -> bool {
        self == Self::Text
    }
}

/// Returns the shortest key that both templates can render although their fixed texts differ. Returns `None` if there
/// is no such key.
///
/// Templates with the same fixed texts, such as `account:<from>` and `account:<to>`, are meant to render the same keys,
/// so this is not a clash. An encoded byte counts as a part of a value even if the decoded bytes are not UTF-8, as in
/// the fixed text `%FF`. Keys that exceed the length limit are compared before they are shortened.
#[must_use]
pub(crate) fn clash(left: &[Part<'_>], right: &[Part<'_>]) -> Option<String> {
    let (left, right) = (tokens(left), tokens(right));
    if left.iter().map(|token| token.text()).eq(right.iter().map(|token| token.text())) {
        return None;
    }
    let start = (Position::START, Position::START);
    let mut seen = HashSet::from([start]);
    // The search is breadth-first. Each entry is a pair of positions, with the index of the previous entry and the byte
    // that leads from there to this entry.
    let mut found = vec![(start, None)];
    for at in 0.. {
        let &((one, other), _) = found.get(at)?;
        if one.index == left.len() && other.index == right.len() {
            return Some(key_of(&found, at));
        }
        let mut next: Vec<_> = one.leave(&left).map(|one| ((one, other), None)).into_iter().collect();
        next.extend(other.leave(&right).map(|other| ((one, other), None)));
        for byte in one.expects(&left).unwrap_or_else(|| other.expects(&right).unwrap_or(IN_VALUES)) {
            if let (Some(one), Some(other)) = (one.read(&left, byte), other.read(&right, byte)) {
                next.push(((one, other), Some(byte)));
            }
        }
        found.extend(
            next.into_iter()
                .filter(|(pair, _)| seen.insert(*pair))
                .map(|(pair, byte)| (pair, Some((at, byte)))),
        );
    }
    None
}

/// A range that contains every byte that an encoded value can contain.
const IN_VALUES: RangeInclusive<u8> = b'%'..=b'~';

type Step = ((Position, Position), Option<(usize, Option<u8>)>);

/// Returns the key that the bytes on the path to an entry form.
fn key_of(found: &[Step], mut at: usize) -> String {
    let mut bytes = Vec::new();
    while let (_, Some((before, byte))) = found[at] {
        bytes.extend(byte);
        at = before;
    }
    bytes.reverse();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One byte of the fixed text, or one whole value.
#[derive(Clone, Copy)]
enum Token {
    Byte(u8),
    /// A value, and the punctuation character that it must encode, if any; see [`mark`].
    Value(Values, Option<u8>),
}

impl Token {
    fn text(self) -> Option<u8> {
        match self {
            Self::Byte(byte) => Some(byte),
            Self::Value(..) => None,
        }
    }
}

fn tokens(parts: &[Part<'_>]) -> Vec<Token> {
    let mut tokens = Vec::new();
    // The fixed text since the previous value.
    let mut between: Option<String> = None;
    for part in parts {
        match *part {
            Part::Text(text) => {
                tokens.extend(text.bytes().map(Token::Byte));
                between = between.map(|before| before + text);
            }
            Part::Value(values) => {
                tokens.push(Token::Value(values, between.as_deref().and_then(mark)));
                between = Some(String::new());
            }
        }
    }
    tokens
}

/// Returns the punctuation character that the value after `text` must encode, because `text` alone separates this value
/// from the value before it. This is the last `.`, `_`, `~` or `-` of `text`, if `text` has no other characters than
/// these, letters, digits and `%`.
fn mark(text: &str) -> Option<u8> {
    let soft = text.bytes().all(|byte| is_unreserved(byte) || byte == b'%');
    text.bytes().rev().find(|byte| soft && is_unreserved(*byte) && !byte.is_ascii_alphanumeric())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

/// The position up to which the automaton of a template has read.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Position {
    index: usize,
    /// Whether a part of the value at `index` has been read.
    begun: bool,
    escape: Escape,
}

/// The part of an encoded byte that has been read.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Escape {
    Nothing,
    Percent,
    /// A percent sign and the higher digit have been read.
    Digit(u8),
}

impl Position {
    const START: Self = Self::before(0);

    const fn before(index: usize) -> Self {
        Self { index, begun: false, escape: Escape::Nothing }
    }

    /// Returns the next byte as a range, if the next byte belongs to the fixed text.
    fn expects(self, tokens: &[Token]) -> Option<RangeInclusive<u8>> {
        let byte = tokens.get(self.index)?.text()?;
        Some(byte..=byte)
    }

    /// Returns the position after the current value, if the value can end here.
    fn leave(self, tokens: &[Token]) -> Option<Self> {
        match tokens.get(self.index)? {
            Token::Value(values, _)
                if self.escape == Escape::Nothing && (self.begun || values.may_be_empty()) =>
            {
                Some(Self::before(self.index + 1))
            }
            _ => None,
        }
    }

    /// Returns the position after `byte` has been read, if `byte` can come next.
    fn read(self, tokens: &[Token], byte: u8) -> Option<Self> {
        let (values, mark) = match *tokens.get(self.index)? {
            Token::Byte(own) => return (own == byte).then(|| Self::before(self.index + 1)),
            Token::Value(values, mark) => (values, mark),
        };
        let plain = |byte: u8| is_unreserved(byte) && mark != Some(byte);
        let escape = match self.escape {
            Escape::Nothing if byte == b'%' => Escape::Percent,
            Escape::Nothing => {
                return (plain(byte) && values.has(byte, !self.begun))
                    .then_some(Self { begun: true, ..self });
            }
            Escape::Percent => Escape::Digit(digit(byte)?),
            Escape::Digit(high) => {
                let encoded = high << 4 | digit(byte)?;
                let ended = Self { begun: true, escape: Escape::Nothing, ..self };
                return (!plain(encoded) && values.has(encoded, !self.begun)).then_some(ended);
            }
        };
        Some(Self { escape, ..self })
    }
}

/// Returns the value of an upper-case hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
