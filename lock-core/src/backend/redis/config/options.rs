//! What stands behind the `?` of a URL.

use std::path::Path;

use super::text::{FORM, decode, duration, invalid, number};
use super::{Address, Config};
use crate::backend::redis::durability::{Durability, MinReplicas};
use crate::error::{LockError, LockErrorKind, Result};

impl Config {
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "connect_timeout" => self.connect_timeout = duration("connect_timeout", value)?,
            "timeout" => self.timeout = duration("timeout", value)?,
            "durability" => {
                let durability = Durability::parse(&decode(value)?);
                self.durability = Some(durability.ok_or_else(|| {
                    invalid("the option `durability` of the Redis URL is `replicas(1)`, or `aof(1,0)`: the primary's own \
                             disk and those of so many replicas")
                })?);
            }
            "min_replicas" if value == "assumed" => self.min_replicas = MinReplicas::Assumed,
            "min_replicas" => {
                return Err(invalid("the option `min_replicas` of the Redis URL can only be `assumed`"));
            }
            "db" if !matches!(self.address, Address::Unix(_)) => {
                return Err(invalid(
                    "the database of a `redis://` URL stands in its path, `/2`, not in `db`",
                ));
            }
            "db" => {
                self.db = number(value)
                    .ok_or_else(|| invalid("the option `db` of the Redis URL is not a number"))?;
            }
            "sentinel_user" | "sentinel_password" if !matches!(self.address, Address::Sentinel(_)) => {
                return Err(invalid(
                    "`sentinel_user` and `sentinel_password` are options of a `redis+sentinel://` URL",
                ));
            }
            "sentinel_password" => {
                let user = self.sentinel_login.take().and_then(|(user, _)| user);
                self.sentinel_login = Some((user, decode(value)?));
            }
            "sentinel_user" => {
                let password = self.sentinel_login.take().map(|(_, password)| password).unwrap_or_default();
                self.sentinel_login = Some((Some(decode(value)?), password));
            }
            "ca" | "cert" | "key" => {
                let Some(tls) = &mut self.tls else {
                    return Err(invalid("`ca`, `cert` and `key` are options of a `rediss://` URL"));
                };
                let file = Some(Path::new(&decode(value)?).to_path_buf());
                if value.is_empty() {
                    return Err(invalid(
                        "`ca`, `cert` and `key` of the Redis URL need the path of a PEM file",
                    ));
                }
                match name {
                    "ca" => tls.authorities = file,
                    "cert" => tls.certificate = file,
                    _ => tls.key = file,
                }
            }
            other => return Err(unknown_option(other)),
        }
        Ok(())
    }
}

/// The name is shown only when it looks like one.
fn unknown_option(name: &str) -> LockError {
    const KNOWN: &[&str] = &[
        "connect_timeout",
        "timeout",
        "db",
        "ca",
        "cert",
        "key",
        "sentinel_user",
        "sentinel_password",
        "durability",
        "min_replicas",
    ];
    let shown = name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let detail = match KNOWN.iter().find(|known| shown && alike(name, known)) {
        Some(known) => format!("unknown option `{name}` in the Redis URL; did you mean `{known}`?"),
        None if shown => {
            format!("unknown option `{name}` in the Redis URL; there are `{}`", KNOWN.join("`, `"))
        }
        None => format!("unknown option in the Redis URL; there are `{}`; {FORM}", KNOWN.join("`, `")),
    };
    LockError::new(LockErrorKind::InvalidRequest, detail)
}

/// Whether a name is a slip of another: the same letters in another order, or one the beginning of the other.
fn alike(name: &str, known: &str) -> bool {
    let sorted = |text: &str| {
        let mut letters: Vec<u8> = text.bytes().filter(|byte| *byte != b'_').collect();
        letters.sort_unstable();
        letters
    };
    sorted(name) == sorted(known) || (name.len() > 3 && (known.starts_with(name) || name.starts_with(known)))
}
