//! The options of a URL, behind its `?`.

use super::form::FORM;
use super::parse::DEFAULT_PORT;
use super::{Address, Config, Listen, Place};
use crate::backend::remote::TlsFiles;
use crate::error::Result;

/// The longest name that Postgres keeps whole.
const LONGEST_NAME: usize = 63;

impl Config {
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "connect_timeout" => self.connect_timeout = FORM.duration("connect_timeout", value)?,
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
            "session_timeout" => self.session_timeout = Some(FORM.duration("session_timeout", value)?),
            "host" => {
                let directory = FORM.decode(value)?;
                if !directory.starts_with('/') || !self.address.0.is_empty() {
                    return Err(FORM.invalid(
                        "the option `host` of the Postgres URL is the directory of a socket, as in \
                         `postgres:///database?host=/run/postgresql`",
                    ));
                }
                let place = Place::Unix { directory: directory.into(), port: DEFAULT_PORT };
                self.address = Address(vec![place]);
            }
            "sslmode" => self.tls = tls(value)?.then(TlsFiles::default),
            "ca" | "sslrootcert" => self.tls_file("ca", value)?,
            "cert" | "sslcert" => self.tls_file("cert", value)?,
            "key" | "sslkey" => self.tls_file("key", value)?,
            "application_name" => self.application_name = FORM.decode(value)?,
            other => return Err(FORM.unknown_option(other)),
        }
        Ok(())
    }

    fn tls_file(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(files) = &mut self.tls else {
            return Err(FORM.invalid(
                "`ca`, `cert` and `key` of the Postgres URL belong to `sslmode=verify-full`, and stand behind it",
            ));
        };
        files.set(&FORM, name, value)
    }
}

/// Returns whether a mode of libpq asks for TLS. There is one way here: the certificate is verified, with its name.
fn tls(value: &str) -> Result<bool> {
    match value {
        "disable" => Ok(false),
        "require" | "verify-ca" | "verify-full" => Ok(true),
        _ => Err(FORM.invalid(
            "the option `sslmode` of the Postgres URL is `disable`, or `verify-full`, as which `require` and `verify-ca` \
             count too; a connection that is encrypted only if the server likes is not offered",
        )),
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
        let of_the_store = ["listen", "schema", "migrate", "mode", "session_timeout"];
        if let Some((name, _)) = options.iter().find(|(name, _)| of_the_store.contains(name)) {
            return Err(FORM.invalid(format_args!(
                "the URL in the option `listen` of the Postgres URL cannot have `{name}`, which belongs to the outer one"
            )));
        }
        return Ok(Listen::With(Box::new(config)));
    }
    let hosts = FORM.hosts(&value, DEFAULT_PORT)?;
    Ok(Listen::At(Address(hosts.into_iter().map(|(host, port)| Place::Tcp { host, port }).collect())))
}

/// Returns whether a text is the name of a schema for the tables. It may be a word of SQL: the statements quote it.
pub(crate) fn is_schema(text: &str) -> bool {
    let mut bytes = text.bytes();
    let starts = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let goes_on = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let reserved = text.starts_with("pg_") || text == "information_schema";
    starts && !reserved && text.len() <= LONGEST_NAME && bytes.all(goes_on)
}
