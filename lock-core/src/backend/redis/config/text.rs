//! The words of a URL.

use std::time::Duration;

use crate::error::{LockError, LockErrorKind, Result};

pub(super) const FORM: &str = "expected `redis[s]://[user:password@]host[:port][/db]`, `redis[s]+sentinel://host,host,host/primary`, \
     `redis[s]+cluster://host,host,host` or `unix://[user:password@]/path/to.sock`, with \
     `?connect_timeout=1s&timeout=500ms` if need be; percent-encode special characters of the password";

/// `user:password@host` in three parts. The last `@` counts, so that an unescaped one in the password does not turn
/// a piece of it into a host name that an error would then show.
pub(super) fn credentials(authority: &str) -> Result<(Option<String>, Option<String>, &str)> {
    let Some((credentials, host)) = authority.rsplit_once('@') else {
        return Ok((None, None, authority));
    };
    let Some((user, password)) = credentials.split_once(':') else {
        return Err(invalid(
            "the Redis URL names a user without a password (a password alone is `:password@`)",
        ));
    };
    let user = decode(user)?;
    Ok(((!user.is_empty()).then_some(user), Some(decode(password)?), host))
}

pub(super) fn host_and_port(text: &str, default: u16) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(v6) => {
            let (host, port) =
                v6.split_once(']').ok_or_else(|| invalid("the IPv6 address has no closing `]`"))?;
            (host, port.strip_prefix(':').unwrap_or(port))
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(invalid("the Redis URL has no host"));
    }
    let port = match port {
        "" => default,
        port => port.parse().map_err(|_| invalid("the port in the Redis URL is not a number up to 65535"))?,
    };
    Ok((host.to_owned(), port))
}

/// A database number; the server checks the upper end.
pub(super) fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| (0..=i64::from(i32::MAX)).contains(number))
}

pub(super) fn duration(option: &'static str, value: &str) -> Result<Duration> {
    let parsed = humantime::parse_duration(value).ok().filter(|duration| !duration.is_zero());
    parsed.ok_or_else(|| {
        LockError::new(
            LockErrorKind::InvalidRequest,
            format!(
                "the option `{option}` of the Redis URL needs a duration above zero, such as `500ms` or `2s`"
            ),
        )
    })
}

pub(super) fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|&digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err(invalid(
                "a `%` in the Redis URL is not followed by two hexadecimal digits; write `%25` for it",
            ));
        };
        bytes.push(u8::try_from(high * 16 + low).expect("BUG: two hexadecimal digits are a byte"));
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| invalid("the Redis URL is not UTF-8 after percent-decoding"))
}

pub(super) fn invalid(what: &'static str) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, format!("{what}; {FORM}"))
}
