//! Converts a value to its canonical spelling, so that one thing has one key. The functions have no side effects.
//!
//! Numbers without a type are refused if they are not in their canonical spelling. Such numbers are not normalised,
//! because the layer cannot find out whether the handler parses the text as a number or uses it as text, such as a
//! postal code. One key for two things is as wrong as two keys for one thing.

use std::borrow::Cow;

use lock_core::key::Values;

use super::uuid;

/// The type of a value: the word after the colon in `<id:u64>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The form of a placeholder without a type. This form accepts any text except a number or a UUID that is not in
    /// its canonical spelling.
    Plain,
    /// The form that accepts any text, unchanged.
    Text,
    /// The form that converts text to lower case.
    Lower,
    Uuid,
    /// A whole number.
    Number(Number),
}

/// The reason why a value is refused: the end of a sentence that starts with, for example, "The path parameter `id`".
type Refusal = Cow<'static, str>;

macro_rules! numbers {
    ($($variant:ident = $type:ident: $values:ident,)*) => {
        /// An integer type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Number { $($variant,)* }

        impl Number {
            const ALL: &'static [(&'static str, Self)] = &[$((stringify!($type), Self::$variant),)*];

            fn canonical(self, value: &str) -> Result<String, Refusal> {
                match self {
                    $(Self::$variant => value.parse::<$type>().map(|number| number.to_string()).map_err(|_| {
                        format!("is not a whole number from {} to {}", $type::MIN, $type::MAX).into()
                    }),)*
                }
            }

            fn values(self) -> Values {
                match self { $(Self::$variant => Values::$values,)* }
            }
        }
    };
}

numbers! {
    U8 = u8: Unsigned,
    U16 = u16: Unsigned,
    U32 = u32: Unsigned,
    U64 = u64: Unsigned,
    U128 = u128: Unsigned,
    Usize = usize: Unsigned,
    I8 = i8: Signed,
    I16 = i16: Signed,
    I32 = i32: Signed,
    I64 = i64: Signed,
    I128 = i128: Signed,
    Isize = isize: Signed,
}

impl Form {
    const WORDS: [(&'static str, Self); 3] =
        [("uuid", Self::Uuid), ("text", Self::Text), ("lower", Self::Lower)];

    /// Returns the form that `word` names, if any.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let number =
            Number::ALL.iter().find(|(name, _)| *name == word).map(|(_, number)| Self::Number(*number));
        number.or_else(|| Self::WORDS.iter().find(|(name, _)| *name == word).map(|(_, form)| *form))
    }

    /// Returns every word that names a form.
    pub(crate) fn words() -> impl Iterator<Item = &'static str> {
        Number::ALL.iter().map(|(name, _)| *name).chain(Self::WORDS.iter().map(|(name, _)| *name))
    }

    /// Returns the characters that the canonical spellings consist of.
    pub(crate) fn values(self) -> Values {
        match self {
            Self::Plain | Self::Text | Self::Lower => Values::Text,
            Self::Uuid => Values::Uuid,
            Self::Number(number) => number.values(),
        }
    }

    /// Returns the canonical spelling of `value`.
    pub(crate) fn canonical(self, value: Cow<'_, str>) -> Result<Cow<'_, str>, Refusal> {
        match self {
            Self::Text => Ok(value),
            Self::Plain => match refusal_of_plain(&value) {
                Some(refusal) => Err(refusal.into()),
                None => Ok(value),
            },
            Self::Lower => Ok(value.to_lowercase().into()),
            Self::Uuid => uuid::canonical(&value).map(Cow::Owned).ok_or_else(|| "is not a UUID".into()),
            Self::Number(number) => number.canonical(&value).map(Cow::Owned),
        }
    }
}

/// Checks a path. Each segment may be the value of a path parameter, so each segment is checked like such a value.
pub(super) fn of_path(path: Cow<'_, str>) -> Result<Cow<'_, str>, Refusal> {
    match path.split('/').find_map(refusal_of_plain) {
        Some(refusal) => Err(format!("has a segment that {refusal}").into()),
        None => Ok(path),
    }
}

/// Returns the reason to refuse text without a type. Text is refused if a handler could parse it to the same value as
/// another text.
fn refusal_of_plain(value: &str) -> Option<&'static str> {
    if is_noncanonical_number(value) {
        return Some("is a number with a sign or leading zeros: write it without them");
    }
    uuid::is_noncanonical(value)
        .then_some("is a UUID in an unusual spelling: write it in lower case with hyphens")
}

/// Returns whether a handler could parse `value` as a whole number, but `value` is not the canonical spelling of that
/// number.
fn is_noncanonical_number(value: &str) -> bool {
    let (sign, digits) = match value.as_bytes() {
        [sign @ (b'+' | b'-'), digits @ ..] => (Some(*sign), digits),
        digits => (None, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let has_zeros = digits.len() > 1 && digits[0] == b'0';
    has_zeros || sign == Some(b'+') || (sign == Some(b'-') && digits == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelt(word: &str, value: &'static str) -> Result<String, String> {
        let form = if word.is_empty() { Form::Plain } else { Form::parse(word).expect("a word") };
        form.canonical(value.into()).map(Cow::into_owned).map_err(Cow::into_owned)
    }

    #[test]
    fn values_have_one_spelling() {
        for (word, value, expected) in [
            ("u64", "1", Some("1")),
            ("u64", "01", Some("1")),
            ("u64", "+1", Some("1")),
            ("u64", "000", Some("0")),
            ("u64", "18446744073709551615", Some("18446744073709551615")),
            ("u64", "18446744073709551616", None),
            ("u64", "-1", None),
            ("u64", "1.0", None),
            ("u64", " 1", None),
            ("u64", "", None),
            ("u64", "\u{661}", None),
            ("u8", "256", None),
            ("i64", "-007", Some("-7")),
            ("i64", "-0", Some("0")),
            ("i64", "+0", Some("0")),
            (
                "u128",
                "0340282366920938463463374607431768211455",
                Some("340282366920938463463374607431768211455"),
            ),
            ("uuid", "67E5504410B1426F9247BB680E5FE0C8", Some("67e55044-10b1-426f-9247-bb680e5fe0c8")),
            ("uuid", "67e5", None),
            ("lower", "ACME-\u{c9}", Some("acme-\u{e9}")),
            ("lower", "007", Some("007")),
            ("text", "007", Some("007")),
            ("text", "+1", Some("+1")),
            ("", "1", Some("1")),
            ("", "0", Some("0")),
            ("", "-5", Some("-5")),
            ("", "0x1", Some("0x1")),
            ("", "1.0", Some("1.0")),
            ("", "+", Some("+")),
            ("", "++1", Some("++1")),
            ("", "0a", Some("0a")),
            ("", "67e55044-10b1-426f-9247-bb680e5fe0c8", Some("67e55044-10b1-426f-9247-bb680e5fe0c8")),
            // Thirty-two digits without hyphens may be a hash.
            ("", "67E5504410B1426F9247BB680E5FE0C8", Some("67E5504410B1426F9247BB680E5FE0C8")),
            ("", "67E55044-10b1-426f-9247-bb680e5fe0c8", None),
            ("", "{67e55044-10b1-426f-9247-bb680e5fe0c8}", None),
            ("", "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8", None),
            ("text", "67E55044-10b1-426f-9247-bb680e5fe0c8", Some("67E55044-10b1-426f-9247-bb680e5fe0c8")),
            ("", "01", None),
            ("", "00", None),
            ("", "+1", None),
            ("", "-0", None),
            ("", "-01", None),
        ] {
            assert_eq!(spelt(word, value).ok().as_deref(), expected, "{word} {value}");
        }
    }

    #[test]
    fn each_part_of_a_path_is_looked_at() {
        for (path, is_fine) in [
            ("/", true),
            ("/orders/1/pay", true),
            ("/orders/01/pay", false),
            ("/orders/+1", false),
            ("/01", false),
            ("/a/67E55044-10b1-426f-9247-bb680e5fe0c8", false),
            ("/v1.0/x", true),
        ] {
            assert_eq!(of_path(path.into()).is_ok(), is_fine, "{path}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_expected() {
        for (word, value, says) in [
            ("i8", "200", "is not a whole number from -128 to 127"),
            ("uuid", "x", "is not a UUID"),
            ("", "01", "is a number with a sign or leading zeros"),
        ] {
            let refusal = spelt(word, value).expect_err("refused");
            assert!(refusal.contains(says), "{refusal}");
        }
    }
}
