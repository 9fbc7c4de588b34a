//! The protocol between a client and a server: reads requests, and writes RESP3 answers.

use bytes::{Buf, BytesMut};

/// An answer of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    Status(String),
    Int(i64),
    Bulk(Vec<u8>),
    /// Text for people, as `INFO` returns it.
    Verbatim(String),
    Array(Vec<Self>),
    /// A message that is not the answer to a request.
    Push(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Error(String),
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Bulk(text.into().into_bytes())
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    /// Appends the answer in the format of the network protocol.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, sign: char, text: &str| {
            out.extend_from_slice(format!("{sign}{text}\r\n").as_bytes());
        };
        match self {
            Self::Nil => line(out, '_', ""),
            Self::Status(text) => line(out, '+', text),
            Self::Error(text) => line(out, '-', text),
            Self::Int(number) => line(out, ':', &number.to_string()),
            Self::Bulk(bytes) => {
                line(out, '$', &bytes.len().to_string());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Verbatim(text) => {
                line(out, '=', &(text.len() + 4).to_string());
                out.extend_from_slice(format!("txt:{text}\r\n").as_bytes());
            }
            Self::Array(all) => {
                line(out, '*', &all.len().to_string());
                all.iter().for_each(|one| one.write(out));
            }
            Self::Push(all) => {
                line(out, '>', &all.len().to_string());
                all.iter().for_each(|one| one.write(out));
            }
            Self::Map(pairs) => {
                line(out, '%', &pairs.len().to_string());
                for (name, value) in pairs {
                    name.write(out);
                    value.write(out);
                }
            }
        }
    }
}

/// Removes the next complete request from the received bytes. It is an array of bulk strings, the only form that
/// clients send.
pub(crate) fn request(received: &mut BytesMut) -> Option<Vec<Vec<u8>>> {
    let mut at = 0;
    let count = number(received, &mut at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(received, &mut at, b'$')?;
        let word = received.get(at..at + length)?;
        words.push(word.to_vec());
        at += length + 2;
    }
    if received.len() < at {
        return None;
    }
    received.advance(at);
    Some(words)
}

/// Reads `<sign><number>\r\n`.
fn number(received: &[u8], at: &mut usize, sign: u8) -> Option<usize> {
    let rest = received.get(*at..)?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(rest[0], sign, "a client sends arrays of bulk strings");
    *at += end + 2;
    Some(std::str::from_utf8(&rest[1..end]).ok()?.parse().expect("a length"))
}
