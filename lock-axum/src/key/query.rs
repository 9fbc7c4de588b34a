//! Reads the parameters of a query.

use std::borrow::Cow;

use super::no_key::NoKey;
use super::uri_path::hex;

/// Returns the parameter `name` of a form-encoded query. The parameter must occur exactly once.
pub(super) fn parameter<'a>(name: &str, query: &'a str) -> Result<Cow<'a, str>, NoKey> {
    let invalid = |what: &str| NoKey::Client(format!("The query parameter `{name}` {what}.").into());
    let mut found = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(key).is_some_and(|key| key == name) && found.replace(value).is_some() {
            return Err(invalid("occurs more than once"));
        }
    }
    let value = found.ok_or_else(|| invalid("is missing"))?;
    match decode(value) {
        Some(value) if value.is_empty() => Err(invalid("is empty")),
        Some(value) => Ok(value),
        None => Err(invalid("is not UTF-8")),
    }
}

/// Decodes `+` to a space, and `%41` to `A`. A `%` without two hexadecimal digits stands for itself. Returns `None` if
/// the result is not UTF-8.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['+', '%']) {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match (byte, digit(bytes.get(at)), digit(bytes.get(at + 1))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high * 16 + low);
                at += 2;
            }
            (b'+', ..) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn digit(byte: Option<&u8>) -> Option<u8> {
    hex(*byte?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        for (text, decoded) in [
            ("", Some("")),
            ("a", Some("a")),
            ("a+b", Some("a b")),
            ("a%2Bb", Some("a+b")),
            ("%3a%3A", Some("::")),
            ("100%", Some("100%")),
            ("%4", Some("%4")),
            ("%zz%41", Some("%zzA")),
            ("%C3%A9", Some("é")),
            ("%ff", None),
        ] {
            assert_eq!(decode(text).as_deref(), decoded, "{text}");
        }
    }

    #[test]
    fn a_query_parameter_occurs_once() {
        for (text, value) in [
            ("q=1", Ok("1")),
            ("a=2&q=1", Ok("1")),
            ("%71=1&qq=2", Ok("1")),
            ("q=1=2", Ok("1=2")),
            ("", Err("is missing")),
            ("qq=1", Err("is missing")),
            ("q", Err("is empty")),
            ("q=", Err("is empty")),
            ("q=1&q=1", Err("occurs more than once")),
            ("q=1&%71", Err("occurs more than once")),
            ("q=%ff", Err("is not UTF-8")),
        ] {
            match (parameter("q", text), value) {
                (Ok(found), Ok(value)) => assert_eq!(found, value, "{text}"),
                (Err(NoKey::Client(detail)), Err(says)) => assert!(detail.contains(says), "{text}: {detail}"),
                (found, value) => panic!("{text}: found {found:?}, expected {value:?}"),
            }
        }
    }
}
