//! The options of a URL, after its `?`.

use super::durability::{Durability, MinReplicas};
use super::form::FORM;
use super::parse::number;
use super::{Address, Config};
use crate::error::Result;

/// Checks a name by the rules of `CLIENT SETNAME`, so that no server refuses the name.
fn client_name(name: String) -> Result<String> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(name);
    }
    Err(FORM.invalid("the `client_name` of the Redis URL may have letters, digits and signs, and no spaces"))
}

impl Config {
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "connect_timeout" => {
                self.connect_timeout = FORM.duration("connect_timeout", value)?;
                self.dial_timeout = self.connect_timeout;
            }
            "timeout" => self.timeout = FORM.duration("timeout", value)?,
            "client_name" => self.client_name = client_name(FORM.decode(value)?)?,
            "durability" => {
                let durability = Durability::parse(&FORM.decode(value)?);
                self.durability = Some(durability.ok_or_else(|| {
                    FORM.invalid(
                        "the option `durability` of the Redis URL is `replicas(1)`, or `aof(1,0)`: the primary's own \
                         disk and those of this many replicas",
                    )
                })?);
            }
            "min_replicas" if value == "assumed" => self.min_replicas = MinReplicas::Assumed,
            "min_replicas" => {
                return Err(FORM.invalid("the option `min_replicas` of the Redis URL can only be `assumed`"));
            }
            "db" if !matches!(self.address, Address::Unix(_)) => {
                return Err(
                    FORM.invalid("the database of a `redis://` URL stands in its path, `/2`, not in `db`")
                );
            }
            "db" => {
                self.db = number(value)
                    .ok_or_else(|| FORM.invalid("the option `db` of the Redis URL is not a number"))?;
            }
            "sentinel_user" | "sentinel_password" if !matches!(self.address, Address::Sentinel(_)) => {
                return Err(FORM.invalid(
                    "`sentinel_user` and `sentinel_password` are options of a `redis+sentinel://` URL",
                ));
            }
            "sentinel_password" => {
                let user = self.sentinel_login.take().and_then(|(user, _)| user);
                self.sentinel_login = Some((user, FORM.decode(value)?));
            }
            "sentinel_user" => {
                let password = self.sentinel_login.take().map(|(_, password)| password).unwrap_or_default();
                self.sentinel_login = Some((Some(FORM.decode(value)?), password));
            }
            "ca" | "cert" | "key" => {
                let Some(tls) = &mut self.tls else {
                    return Err(FORM.invalid("`ca`, `cert` and `key` are options of a `rediss://` URL"));
                };
                tls.set(&FORM, name, value)?;
            }
            other => return Err(FORM.unknown_option(other)),
        }
        Ok(())
    }
}
