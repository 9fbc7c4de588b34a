//! The PEM files that a URL names.

use std::path::PathBuf;

use crate::backend::remote::UrlForm;
use crate::error::Result;

/// The PEM files of a URL with TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The trusted authorities of the server's certificate. With `None`, the authorities of the system are trusted.
    pub(crate) authorities: Option<PathBuf>,
    /// The certificate that this client presents; `None` for no certificate.
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsFiles {
    /// Sets one of the options `ca`, `cert` and `key`.
    pub(crate) fn set(&mut self, form: &UrlForm, name: &str, value: &str) -> Result<()> {
        let file = Some(PathBuf::from(form.decode(value)?));
        if value.is_empty() {
            return Err(form.invalid(format_args!(
                "`ca`, `cert` and `key` of the {} URL need the path of a PEM file",
                form.store
            )));
        }
        let place = match name {
            "ca" => &mut self.authorities,
            "cert" => &mut self.certificate,
            "key" => &mut self.key,
            other => return Err(form.unknown_option(other)),
        };
        if std::mem::replace(place, file).is_some() {
            // Postgres has two names for each of these options, and the URL may use both.
            return Err(
                form.invalid(format_args!("the {} URL has more than one `{name}`; remove one", form.store))
            );
        }
        Ok(())
    }

    /// Refuses a certificate without its key, and a key without its certificate.
    pub(crate) fn check(&self, form: &UrlForm) -> Result<()> {
        let store = form.store;
        match (&self.certificate, &self.key) {
            (Some(_), None) => {
                Err(form.invalid(format_args!("the {store} URL has a `cert` without its `key`")))
            }
            (None, Some(_)) => {
                Err(form.invalid(format_args!("the {store} URL has a `key` without its `cert`")))
            }
            _ => Ok(()),
        }
    }
}
