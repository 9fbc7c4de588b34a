//! Converts the path of a URI to its canonical spelling.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns the path with its percent-encoding decoded, as a router decodes path parameters. So `/%61` becomes `/a`.
///
/// Some bytes stay encoded, in upper case, because the decoded path would have another meaning. These are a slash,
/// which would start another segment, the percent sign itself, and bytes that are not UTF-8.
pub(super) fn canonical(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, behind @ ..]) => {
                match hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low) {
                    Some(byte) if byte == b'/' || byte == b'%' => {
                        bytes.extend(format!("%{byte:02X}").bytes());
                        rest = behind;
                    }
                    Some(byte) => {
                        bytes.push(byte);
                        rest = behind;
                    }
                    // A percent sign without two hexadecimal digits stands for itself.
                    None => bytes.extend(b"%25"),
                }
            }
            (b'%', _) => bytes.extend(b"%25"),
            (byte, _) => bytes.push(*byte),
        }
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "%{byte:02X}").expect("BUG: writing to a String does not fail");
        }
    }
    Cow::Owned(text)
}

/// Returns the value of a hexadecimal digit.
pub(super) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_has_one_spelling() {
        for (path, expected) in [
            ("/orders/7", "/orders/7"),
            ("/orders/%37", "/orders/7"),
            ("/%6f%72ders/7", "/orders/7"),
            ("/a%3Ab", "/a:b"),
            ("/a:b", "/a:b"),
            ("/a%20b", "/a b"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a%2fb", "/a%2Fb"),
            ("/a%252Fb", "/a%252Fb"),
            ("/100%25", "/100%25"),
            ("/100%", "/100%25"),
            ("/1%0", "/1%250"),
            ("/%zz", "/%25zz"),
            ("/%C3%A9", "/\u{e9}"),
            ("/%ff", "/%FF"),
            ("/%FF%61", "/%FFa"),
            ("", ""),
        ] {
            assert_eq!(canonical(path), expected, "{path}");
        }
    }
}
