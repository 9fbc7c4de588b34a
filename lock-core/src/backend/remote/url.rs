//! Parses the parts that the URLs of all stores have: credentials, hosts and options.
//!
//! No error contains a part of the URL that may belong to a password. If a password has an unescaped `@`, `?` or `&`, a
//! piece of the password looks like another part of the URL. So these functions refuse such a URL before an error can
//! show a piece of the password.

use std::fmt;
use std::time::Duration;

use crate::error::{LockError, LockErrorKind, Result};
use crate::words;

/// The description of the URL of one kind of store, for error texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UrlForm {
    /// The name of the store, as in "the Redis URL".
    pub(crate) store: &'static str,
    /// The text about the forms of the URL. Most errors end with this text.
    pub(crate) expected: &'static str,
    pub(crate) options: &'static [&'static str],
}

/// The user, the password and the rest of an authority.
pub(crate) type Credentials<'a> = (Option<String>, Option<String>, &'a str);

/// Returns `host:port`, with brackets around an IPv6 address.
pub(crate) fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl UrlForm {
    /// Returns an error that says what is wrong and what is expected.
    pub(crate) fn invalid(&self, what: impl fmt::Display) -> LockError {
        LockError::new(LockErrorKind::InvalidRequest, format!("{what}; {}", self.expected))
    }

    /// Splits `rest?name=value&..` into the part before the `?` and the options.
    pub(crate) fn options<'a>(&self, url: &'a str) -> Result<(&'a str, Vec<(&'a str, &'a str)>)> {
        let (rest, query) = url.split_once('?').unwrap_or((url, ""));
        if query.contains('@') {
            // The password may contain an unescaped `?`. Errors show options, so the rest of the password must not be
            // treated as an option.
            return Err(
                self.invalid(format_args!("there is an `@` behind the `?` of the {} URL", self.store))
            );
        }
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs: Vec<_> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        for (at, (name, _)) in pairs.iter().enumerate() {
            if self.options.contains(name) && pairs[..at].iter().any(|(before, _)| before == name) {
                return Err(self.invalid(format_args!(
                    "the option `{name}` of the {} URL is given twice; remove one",
                    self.store
                )));
            }
        }
        Ok((rest, pairs))
    }

    /// Refuses an `@` after the first `/`. Otherwise a piece of a password with an unescaped `/` would be treated as a
    /// path, and errors show paths.
    #[cfg(any(feature = "postgres", feature = "zookeeper"))]
    pub(crate) fn check_path(&self, path: &str) -> Result<()> {
        if path.contains('@') {
            return Err(self.invalid(format_args!(
                "there is an `@` behind the `/` of the {} URL; write `%2F` for a `/` in a password",
                self.store
            )));
        }
        Ok(())
    }

    /// Splits `user:password@hosts` into three parts. Splits at the last `@`. Otherwise an unescaped `@` in the
    /// password would turn a piece of the password into a host name, and errors show host names.
    pub(crate) fn credentials<'a>(&self, authority: &'a str) -> Result<Credentials<'a>> {
        let Some((credentials, hosts)) = authority.rsplit_once('@') else {
            return Ok((None, None, authority));
        };
        let Some((user, password)) = credentials.split_once(':') else {
            return Err(self.invalid(format_args!(
                "the {} URL names a user without a password (a password alone is `:password@`)",
                self.store
            )));
        };
        let user = self.decode(user)?;
        Ok(((!user.is_empty()).then_some(user), Some(self.decode(password)?), hosts))
    }

    /// Parses `host[:port]`. The host may be an IPv6 address in brackets.
    pub(crate) fn host_and_port(&self, text: &str, default: u16) -> Result<(String, u16)> {
        let (host, port) = match text.strip_prefix('[') {
            Some(v6) => {
                let (host, port) =
                    v6.split_once(']').ok_or_else(|| self.invalid("the IPv6 address has no closing `]`"))?;
                match port.strip_prefix(':') {
                    None if !port.is_empty() => {
                        let what =
                            "there is something other than `:` and a port behind the `]` of an IPv6 address";
                        return Err(self.invalid(what));
                    }
                    port => (host, port.unwrap_or("")),
                }
            }
            None => text.split_once(':').unwrap_or((text, "")),
        };
        if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(self.invalid(format_args!(
                "there is white space in the hosts of the {} URL, or a line break behind them",
                self.store
            )));
        }
        if !text.starts_with('[') && port.contains(':') {
            return Err(self.invalid(format_args!(
                "a host of the {} URL has several `:`; an IPv6 address stands in brackets, as in `[::1]:{default}`",
                self.store
            )));
        }
        if host.is_empty() {
            return Err(self.invalid(format_args!("the {} URL has no host", self.store)));
        }
        let port = match port {
            "" => default,
            port => port.parse().map_err(|_| {
                self.invalid(format_args!("the port in the {} URL is not a number up to 65535", self.store))
            })?,
        };
        Ok((host.to_owned(), port))
    }

    /// Parses `host[:port],host[:port],..`.
    pub(crate) fn hosts(&self, text: &str, default: u16) -> Result<Vec<(String, u16)>> {
        text.split(',').map(|host| self.host_and_port(host, default)).collect()
    }

    /// Parses the value of an option that is a duration above zero. The error shows the value only if it is a number.
    pub(crate) fn duration(&self, option: &'static str, value: &str) -> Result<Duration> {
        words::duration::parse(value).map_err(|_| {
            let store = self.store;
            let needs = match value.parse() {
                Ok(number @ 1_u64..) => format!("a unit: `{number}ms` or `{number}s`?"),
                _ => "a duration above zero, such as `500ms` or `2s`".to_owned(),
            };
            let detail = format!("the option `{option}` of the {store} URL needs {needs}");
            LockError::new(LockErrorKind::InvalidRequest, detail)
        })
    }

    /// Replaces every `%` and its two hexadecimal digits by the byte that the digits encode.
    pub(crate) fn decode(&self, text: &str) -> Result<String> {
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
                return Err(self.invalid(format_args!(
                    "a `%` in the {} URL is not followed by two hexadecimal digits; write `%25` for it",
                    self.store
                )));
            };
            bytes.push(u8::try_from(high * 16 + low).expect("BUG: two hexadecimal digits are a byte"));
            rest = &tail[2..];
        }
        String::from_utf8(bytes).map_err(|_| {
            self.invalid(format_args!("the {} URL is not UTF-8 after percent-decoding", self.store))
        })
    }

    /// Returns the error for an unknown option. The error shows the name only if it looks like the name of an option,
    /// and suggests the most similar option.
    pub(crate) fn unknown_option(&self, name: &str) -> LockError {
        let store = self.store;
        let shown = name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let listed = || self.options.join("`, `");
        if !shown {
            return self.invalid(format_args!("unknown option in the {store} URL; there are `{}`", listed()));
        }
        let detail = match nearest(name, self.options) {
            Some(known) => format!("unknown option `{name}` in the {store} URL; did you mean `{known}`?"),
            None => format!("unknown option `{name}` in the {store} URL; there are `{}`", listed()),
        };
        LockError::new(LockErrorKind::InvalidRequest, detail)
    }
}

/// Returns the word that `name` probably misspells, shortens or extends.
fn nearest(name: &str, words: &[&'static str]) -> Option<&'static str> {
    let near = words.iter().map(|&word| (strsim::osa_distance(name, word), word));
    let slip = near.filter(|(distance, word)| distance * 3 <= word.len()).min().map(|(_, word)| word);
    let shortened = || {
        let part = |word: &&&str| word.starts_with(name) || name.starts_with(**word);
        words.iter().find(part).copied().filter(|_| name.len() > 3)
    };
    slip.or_else(shortened)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: UrlForm = UrlForm {
        store: "Test",
        expected: "expected `test://host`",
        options: &["connect_timeout", "timeout", "db"],
    };

    fn text(error: Result<impl fmt::Debug>) -> String {
        error.expect_err("an error").to_string()
    }

    #[test]
    fn the_last_at_sign_ends_the_credentials() {
        let split = |authority| FORM.credentials(authority).expect("credentials");
        let owned = |text: &str| Some(text.to_owned());
        assert_eq!(split("h:1"), (None, None, "h:1"));
        assert_eq!(split(":s3cret@h"), (None, owned("s3cret"), "h"));
        assert_eq!(split("a%40b:p@s:s@h,i"), (owned("a@b"), owned("p@s:s"), "h,i"));
        assert!(text(FORM.credentials("user@h")).contains("the Test URL names a user without a password"));
    }

    #[test]
    fn hosts_have_ports_and_brackets() {
        let hosts = FORM.hosts("a,b:1,[::1],[::2]:3", 9).expect("hosts");
        let expected =
            [("a", 9), ("b", 1), ("::1", 9), ("::2", 3)].map(|(host, port)| (host.to_owned(), port));
        assert_eq!(hosts, expected);
        for (hosts, expected) in [
            ("a,,b", "has no host"),
            ("[::1", "closing `]`"),
            ("a:99999", "up to 65535"),
            ("[::1]9", "behind the `]`"),
            ("::1", "as in `[::1]:9`"),
            ("a, b", "white space"),
            ("a\n", "a line break"),
        ] {
            assert!(text(FORM.hosts(hosts, 9)).contains(expected), "{hosts}");
        }
    }

    #[test]
    fn options_are_pairs() {
        let (rest, options) = FORM.options("h/1?a=1&&b&c=2=3").expect("options");
        assert_eq!((rest, options), ("h/1", vec![("a", "1"), ("b", ""), ("c", "2=3")]));
        assert_eq!(FORM.options("h").expect("none"), ("h", Vec::new()));
        let error = text(FORM.options("h?db=1&timeout=2s&db=1"));
        assert!(error.contains("the option `db` of the Test URL is given twice"), "{error}");
        let error = text(FORM.options("user:s3?cret@h"));
        assert!(error.contains("there is an `@` behind the `?` of the Test URL"), "{error}");
    }

    #[test]
    fn an_unknown_option_is_shown_only_if_it_looks_like_one() {
        let table = [
            ("tiemout", "unknown option `tiemout` in the Test URL; did you mean `timeout`?"),
            ("connection_timeout", "did you mean `connect_timeout`?"),
            ("connect", "did you mean `connect_timeout`?"),
            ("dbs", "unknown option `dbs` in the Test URL; there are `connect_timeout`, `timeout`, `db`"),
            (
                "s3cret",
                "unknown option in the Test URL; there are `connect_timeout`, `timeout`, `db`; expected",
            ),
        ];
        for (name, expected) in table {
            let error = FORM.unknown_option(name).to_string();
            assert!(error.contains(expected), "{name}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn text_is_decoded_and_durations_are_above_zero() {
        assert_eq!(FORM.decode("a%2fb%C3%A9").expect("text"), "a/bé");
        assert!(text(FORM.decode("a%zz")).contains("write `%25` for it"));
        assert!(text(FORM.decode("%ff")).contains("not UTF-8"));
        assert_eq!(FORM.duration("timeout", "2s").expect("a duration"), Duration::from_secs(2));
        for (value, needs) in [
            ("", "a duration above zero, such as `500ms`"),
            ("0", "a duration above zero"),
            ("0s", "a duration above zero"),
            ("soon", "a duration above zero"),
            ("1", "a unit: `1ms` or `1s`?"),
        ] {
            let error = text(FORM.duration("timeout", value));
            assert!(error.contains(&format!("`timeout` of the Test URL needs {needs}")), "{value}: {error}");
        }
    }
}
