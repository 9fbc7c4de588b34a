//! Defines [`KeyTemplate`], the text from which keys are rendered.

use std::fmt;
use std::str::FromStr;

use super::{Key, KeyBuilder};
use crate::error::{LockError, LockErrorKind, Result};
use crate::label::LabelBuilder;
use crate::words::clash::{self, Part, Values};
use crate::words::template::{Broken, Piece, split};

/// The text from which a key is rendered, such as `order:<id>`.
///
/// `<name>` is a placeholder. Its name is any text without `<` and `>`. `<<` stands for a `<`, and a `>` outside a
/// placeholder stands for itself. All other text is literal.
///
/// # Examples
///
/// ```
/// use lock_core::key::KeyTemplate;
///
/// let template = KeyTemplate::parse("order:<id>:<item.sku>")?;
/// assert_eq!(template.placeholders().collect::<Vec<_>>(), ["id", "item.sku"]);
/// let key = template.render(|name| Ok(if name == "id" { "42" } else { "a/b" }))?;
/// assert_eq!(key.as_str(), "order:42:a%2Fb");
/// # Ok::<(), lock_core::LockError>(())
/// ```
#[derive(Clone)]
pub struct KeyTemplate {
    source: Box<str>,
    pieces: Vec<Piece>,
}

impl KeyTemplate {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// [`LockErrorKind::InvalidKey`] if the template is empty, or if a placeholder is empty, not closed, or inside
    /// another placeholder. Also if no text between two placeholders separates their values (see the [module](super)).
    /// The error names the byte and what was expected there.
    pub fn parse(text: &str) -> Result<Self> {
        let pieces = split(text).map_err(|broken| invalid(text, broken))?;
        Ok(Self { source: text.into(), pieces })
    }

    /// Returns the text of the template.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Returns the names of the placeholders from left to right. If a name is used twice, it is returned twice.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Placeholder(name) => Some(&**name),
            Piece::Literal(_) => None,
        })
    }

    /// Renders a key. `lookup` returns the value of each placeholder, which this function then encodes.
    ///
    /// # Errors
    ///
    /// The first error of `lookup`, or [`LockErrorKind::InvalidKey`] if the key would be empty or the `Display` of a
    /// value fails.
    pub fn render<V: fmt::Display>(&self, mut lookup: impl FnMut(&str) -> Result<V>) -> Result<Key> {
        let mut key = KeyBuilder::new();
        for piece in &self.pieces {
            key = match piece {
                Piece::Literal(text) => key.literal(text),
                Piece::Placeholder(name) => key.value(&lookup(name)?),
            };
        }
        key.finish()
    }

    /// Renders a label, in which values are not encoded. `lookup` returns the value of each placeholder. A label of
    /// more than 256 bytes is truncated.
    #[must_use]
    pub fn render_label<V: fmt::Display>(&self, mut lookup: impl FnMut(&str) -> V) -> String {
        let mut label = LabelBuilder::new();
        for piece in &self.pieces {
            label = match piece {
                Piece::Literal(text) => label.literal(text),
                Piece::Placeholder(name) => label.value(&lookup(name)),
            };
        }
        label.finish()
    }

    /// Returns a key that both templates can render although their fixed texts differ. Returns `None` if there is no
    /// such key.
    ///
    /// `job:<name>` and `job:nightly` have such a key, and so have `order:<id>` and `order:<id>.items`. If two
    /// templates differ only in letters, digits, `.`, `_`, `~` and `-`, a value of one template can imitate the fixed
    /// text of the other. To avoid a clash, let the templates differ in a character such as `:`, `/` or `#`. Templates
    /// with the same fixed texts, such as `account:<from>` and `account:<to>`, name the same keys and never clash. A
    /// program can compare its templates in a test.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::key::KeyTemplate;
    ///
    /// let template = |text| KeyTemplate::parse(text);
    /// assert_eq!(template("job:<name>")?.clash(&template("job:nightly")?).as_deref(), Some("job:nightly"));
    /// assert_eq!(template("job:<name>")?.clash(&template("jobs:nightly")?), None);
    /// assert_eq!(template("order:<id>")?.clash(&template("order:<id>:items")?), None);
    /// # Ok::<(), lock_core::LockError>(())
    /// ```
    #[must_use]
    pub fn clash(&self, other: &Self) -> Option<String> {
        self.clash_with_values(other, |_name| Values::Text)
    }

    /// Does the same as [`clash`](Self::clash) for values of known types. `values` returns the set of characters that
    /// the values of a placeholder consist of. For example, if `id` is a number, it cannot imitate `nightly`, so
    /// `job:<id>` and `job:nightly` do not clash.
    #[must_use]
    pub fn clash_with_values(&self, other: &Self, values: impl Fn(&str) -> Values) -> Option<String> {
        clash::clash(&self.parts(&values), &other.parts(&values))
    }

    fn parts(&self, values: &impl Fn(&str) -> Values) -> Vec<Part<'_>> {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => Part::Text(text),
                Piece::Placeholder(name) => Part::Value(values(name)),
            })
            .collect()
    }
}

/// Returns the error for a broken template, with the position of the mistake and what was expected there.
fn invalid(text: &str, broken: Broken<'_>) -> LockError {
    let (at, detail) = match broken {
        Broken::Empty => {
            (0, "is empty: expected text or a placeholder there, such as `order:<id>`".to_owned())
        }
        Broken::Open(open) => (
            open,
            "has a `<` that is not closed: expected `>` after the placeholder's name, or `<<` for a literal `<`"
                .to_owned(),
        ),
        Broken::Inside { open, other } => (
            other,
            format!("has a `<` inside the placeholder that opens at byte {open}: expected `>` first"),
        ),
        Broken::Nameless(open) => (
            open,
            "has a placeholder without a name: expected a name between `<` and `>`, such as `<id>`".to_owned(),
        ),
        Broken::Adjacent { open, .. } => (
            open,
            "has a placeholder with nothing before it that keeps its value apart from the one before: \
             expected a separator, such as `:`"
                .to_owned(),
        ),
    };
    LockError::new(LockErrorKind::InvalidKey, format!("the template {text:?} at byte {at} {detail}"))
}

impl FromStr for KeyTemplate {
    type Err = LockError;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.source)
    }
}

impl fmt::Debug for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyTemplate").field(&self.source).finish()
    }
}

impl PartialEq for KeyTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for KeyTemplate {}

impl std::hash::Hash for KeyTemplate {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_as_documented() {
        for (text, names, rendered) in [
            ("order", &[][..], "order"),
            ("order:<id>", &["id"], "order:[id]"),
            ("<id>", &["id"], "[id]"),
            ("<a>:<b.c>:<self.0>", &["a", "b.c", "self.0"], "[a]:[b.c]:[self.0]"),
            ("<a>:<a>", &["a", "a"], "[a]:[a]"),
            ("<header.x-tenant>", &["header.x-tenant"], "[header.x-tenant]"),
            ("< a >", &[" a "], "[%20a%20]"),
            ("<é>", &["é"], "[%C3%A9]"),
            ("a<<b", &[], "a<b"),
            ("<<id>", &[], "<id>"),
            ("<<<id>", &["id"], "<[id]"),
            ("<<<<", &[], "<<"),
            ("<id>>", &["id"], "[id]>"),
            ("a>b", &[], "a>b"),
            ("<a><<<b>", &["a", "b"], "[a]<[b]"),
        ] {
            let template = KeyTemplate::parse(text).unwrap();
            assert_eq!(template.placeholders().collect::<Vec<_>>(), names, "{text}");
            let key = template.render(|name| Ok(format!("[{name}]"))).unwrap();
            assert_eq!(key.as_str(), rendered.replace('[', "%5B").replace(']', "%5D"), "{text}");
            assert_eq!(text.parse::<KeyTemplate>().unwrap(), template);
            assert_eq!((template.as_str(), template.to_string()), (text, text.to_owned()));
        }
    }

    #[test]
    fn errors_name_the_byte_and_what_was_expected() {
        for (text, says) in [
            ("", "at byte 0 is empty: expected text or a placeholder"),
            ("order:<id", "at byte 6 has a `<` that is not closed: expected `>`"),
            ("order:<", "at byte 6 has a `<` that is not closed"),
            ("é<<:<id", "at byte 5 has a `<` that is not closed"),
            ("a:<>", "at byte 2 has a placeholder without a name: expected a name"),
            ("<a<b>", "at byte 2 has a `<` inside the placeholder that opens at byte 0: expected `>`"),
            ("<a<<b>", "at byte 2 has a `<` inside the placeholder that opens at byte 0"),
            ("<a><b>", "at byte 3 has a placeholder with nothing before it that keeps its value apart"),
            ("<a>and<b>", "at byte 6 has a placeholder with nothing before it"),
            ("<a>%<b>", "expected a separator, such as `:`"),
        ] {
            let error = KeyTemplate::parse(text).unwrap_err();
            assert_eq!(error.kind(), LockErrorKind::InvalidKey);
            let message = error.to_string();
            assert!(message.contains(says) && message.contains(&format!("{text:?}")), "{message}");
        }
    }
}
