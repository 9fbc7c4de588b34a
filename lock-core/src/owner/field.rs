//! Writes and reads the fields of a record.

use std::fmt;

/// The value of a field of a record. Its `Display` percent-encodes spaces, control characters, `%` and all non-ASCII
/// characters.
pub(super) struct Field<'a>(pub(super) &'a str);

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0.as_bytes() {
            match byte {
                b'!'..=b'~' if byte != b'%' => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

pub(super) fn unescape(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
