//! The TLS part of a connection: trusted authorities, the client certificate, and the handshake.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use super::TlsFiles;
use crate::backend::remote::{Failure, UrlForm};
use crate::error::{LockError, LockErrorKind, Result};

/// The TLS configuration for the servers of one URL.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Makes the configuration from the files, which are read only once: if a certificate is replaced, the application
    /// must create a new backend. Also checks the names of the `hosts` that are already known.
    pub(crate) fn new<'a>(
        form: &UrlForm,
        files: &TlsFiles,
        hosts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        for host in hosts {
            name(host).map_err(refused)?;
        }
        // The provider is passed explicitly, because the default provider is a global variable that other code may have
        // set.
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(format!("TLS cannot be set up ({error})")))?
            .with_root_certificates(authorities(form, files.authorities.as_deref())?);
        let config = match (&files.certificate, &files.key) {
            (Some(certificate), Some(key)) => {
                let shown = builder.with_client_auth_cert(certificates(certificate)?, private_key(key)?);
                shown.map_err(|error| {
                    let store = form.store;
                    refused(format!("`cert` and `key` of the {store} URL do not go together ({error})"))
                })?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Sets the protocol of the connections, for a server that offers several protocols on one port.
    #[cfg(feature = "etcd")]
    #[must_use]
    pub(crate) fn with_protocol(self, protocol: &[u8]) -> Self {
        let mut config = ClientConfig::clone(self.0.config());
        config.alpn_protocols = vec![protocol.to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }

    /// Performs the handshake. `host` is the name that the server's certificate must have.
    pub(crate) async fn wrap<R: Default>(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> std::result::Result<TlsStream<TcpStream>, Failure<R>> {
        let name = name(host).map_err(|text| Failure::new(LockErrorKind::Unavailable, text).settled())?;
        self.0.connect(name, stream).await.map_err(|error| {
            let text = format!("TLS failed ({error}); {}", self.advice(&error));
            let failure = Failure::new(LockErrorKind::Unavailable, text);
            // An error of TLS itself proves that the peer speaks TLS. If the connection was merely closed, the server
            // or a proxy may not be up yet.
            if cause(&error).is_some() { failure.settled() } else { failure }
        })
    }

    /// Returns the likely cause of a failed handshake.
    fn advice(&self, error: &io::Error) -> &'static str {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        match cause(error) {
            Some(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                "has its certificate this host's name?"
            }
            Some(Error::InvalidCertificate(_)) => {
                "is its certificate in date, and its authority known (`ca=/path/to/ca.pem`)?"
            }
            Some(Error::AlertReceived(_)) => self.advice_for_refused(),
            _ => "does the server speak TLS on this port?",
        }
    }

    /// Returns the likely causes if the server has refused this client.
    pub(crate) fn advice_for_refused(&self) -> &'static str {
        match self.0.config().client_auth_cert_resolver.has_certs() {
            true => "does the server know the authority of this client's certificate (`cert`)?",
            false => "does the server want a certificate of this client (`cert` and `key`)?",
        }
    }
}

/// Returns the TLS error that caused an error of the stream.
fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|cause| cause.downcast_ref())
}

fn name(host: &str) -> std::result::Result<ServerName<'static>, String> {
    let name = ServerName::try_from(host.to_owned());
    name.map_err(|_| format!("`{host}` is no name that a certificate could have"))
}

fn authorities(form: &UrlForm, file: Option<&Path>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    if store.add_parsable_certificates(trusted(file)?).0 == 0 {
        let from = file.map_or_else(|| "the system's store".to_owned(), |file| file.display().to_string());
        return Err(refused(format!(
            "there is no authority in {from}: name one with `ca=/path/to/ca.pem` in the {} URL",
            form.store
        )));
    }
    Ok(store)
}

/// Returns the certificates of the authorities, including unusable ones.
pub(super) fn trusted(file: Option<&Path>) -> Result<Vec<CertificateDer<'static>>> {
    file.map_or_else(|| Ok(rustls_native_certs::load_native_certs().certs), certificates)
}

pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(refused(format!("there is no certificate in {}", file.display()))),
        Err(error) => Err(refused(format!("{} cannot be read as certificates ({error})", file.display()))),
    }
}

pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| refused(format!("{} cannot be read as a private key ({error})", file.display())))
}

fn refused(detail: String) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, detail)
}
