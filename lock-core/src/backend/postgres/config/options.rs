//! Reads the options of a URL, which follow its `?`.

use std::time::Duration;

use super::foreign::ignores;
use super::form::FORM;
use super::hosts;
use super::{Config, Listen};
use crate::backend::remote::TlsFiles;
use crate::error::Result;

/// The length of the longest name that Postgres does not truncate.
const LONGEST_NAME: usize = 63;

impl Config {
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "connect_timeout" => {
                connect_timeout(value)?.into_iter().for_each(|limit| self.set_connect_timeout(limit))
            }
            "timeout" => self.timeout = FORM.duration("timeout", value)?,
            "schema" if is_schema(value) => value.clone_into(&mut self.schema),
            "schema" => {
                return Err(FORM.invalid(
                    "the option `schema` of the Postgres URL is a name of lower-case letters, digits and `_`, at most 63, \
                     and none of Postgres itself",
                ));
            }
            "migrate" if matches!(value, "true" | "false") => self.migrate = value == "true",
            "migrate" => {
                return Err(FORM.invalid("the option `migrate` of the Postgres URL is `true` or `false`"));
            }
            "listen" => self.listen = listen(value)?,
            "mode" if matches!(value, "leases" | "advisory") => self.advisory = value == "advisory",
            "mode" => {
                return Err(FORM.invalid("the option `mode` of the Postgres URL is `leases` or `advisory`"));
            }
            "pooling" if matches!(value, "session" | "transaction") => {
                self.session_pooling = value == "session";
            }
            "pooling" => {
                return Err(
                    FORM.invalid("the option `pooling` of the Postgres URL is `session` or `transaction`")
                );
            }
            "session_timeout" => self.session_timeout = Some(FORM.duration("session_timeout", value)?),
            "user" => drop(self.driver.user(FORM.decode(value)?)),
            "password" => drop(self.driver.password(FORM.decode(value)?)),
            "dbname" => drop(self.driver.dbname(FORM.decode(value)?)),
            // These options precede the store's settings. If both set the same option, the store's value counts.
            "options" => drop(self.driver.options(FORM.decode(value)?)),
            "sslmode" => {
                self.tls = (value != "disable").then(TlsFiles::default);
                self.prefers_tls = matches!(value, "allow" | "prefer");
                if !MODES.contains(&value) {
                    return Err(FORM.invalid(
                        "the option `sslmode` of the Postgres URL is `disable`, `prefer`, as which `allow` counts too, or \
                         `verify-full`, as which `require` and `verify-ca` count too",
                    ));
                }
            }
            // As in libpq, `system` means the certificate store of the system, which is the default.
            "sslrootcert" if value == "system" && self.tls.is_some() => {}
            "ca" | "sslrootcert" => self.tls_file("ca", value)?,
            "cert" | "sslcert" => self.tls_file("cert", value)?,
            "key" | "sslkey" => self.tls_file("key", value)?,
            "application_name" => drop(self.driver.application_name(FORM.decode(value)?)),
            other if ignores(other, value)? => {}
            other => return Err(FORM.unknown_option(other)),
        }
        Ok(())
    }

    fn tls_file(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(files) = &mut self.tls else {
            return Err(
                FORM.invalid("`ca`, `cert` and `key` of the Postgres URL belong to `sslmode=verify-full`")
            );
        };
        files.set(&FORM, name, value)
    }
}

/// The modes of libpq. If TLS is used, this store always verifies the server's certificate and name.
const MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// Reads the option `connect_timeout`: a duration, or seconds as in libpq. 0 means the default.
fn connect_timeout(value: &str) -> Result<Option<Duration>> {
    match value.parse::<u64>() {
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds)).filter(|limit| !limit.is_zero())),
        Err(_) => FORM.duration("connect_timeout", value).map(Some),
    }
}

fn listen(value: &str) -> Result<Listen> {
    let value = FORM.decode(value)?;
    if value == "off" {
        return Ok(Listen::Off);
    }
    if value.contains("://") {
        let config = Config::parse(&value)?;
        let (_, options) = FORM.options(&value)?;
        let of_the_store = ["listen", "schema", "migrate", "mode", "session_timeout", "pooling"];
        if let Some((name, _)) = options.iter().find(|(name, _)| of_the_store.contains(name)) {
            return Err(FORM.invalid(format_args!(
                "the URL in the option `listen` of the Postgres URL cannot have `{name}`, which belongs to the outer one"
            )));
        }
        return Ok(Listen::With(Box::new(config)));
    }
    Ok(Listen::At(hosts::address(&value)?))
}

/// Returns whether a text can be the name of the schema. The name may be a reserved word of SQL, because the statements
/// quote it.
pub(crate) fn is_schema(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let goes_on = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let reserved = text.starts_with("pg_") || text == "information_schema";
    starts && !reserved && text.len() <= LONGEST_NAME && bytes.all(goes_on)
}
