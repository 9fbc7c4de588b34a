//! The TLS side of a connection: trusted authorities, the client certificate, and the handshake.

use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::TlsFiles;
use crate::backend::remote::{Failure, UrlForm};
use crate::error::{LockError, LockErrorKind, Result};

/// Encrypts connections to the servers of one URL.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files once: a certificate that is replaced later needs a new backend. Checks the `hosts` that are
    /// known already.
    pub(crate) fn new<'a>(
        form: &UrlForm,
        files: &TlsFiles,
        hosts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        for host in hosts {
            name(host).map_err(refused)?;
        }
        // The provider is named, because the default provider is a global that other code may or may not have set.
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

    /// Names the protocol that is to be spoken over the connections, for a server that offers several on one port.
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
        let name = name(host).map_err(|text| Failure::new(LockErrorKind::Unavailable, text))?;
        self.0.connect(name, stream).await.map_err(|error| {
            let text = format!(
                "TLS failed ({error}); does the server speak TLS on this port, has its certificate this host's name, \
                 and is its authority known (`ca=/path/to/ca.pem`)?"
            );
            Failure::new(LockErrorKind::Unavailable, text)
        })
    }
}

fn name(host: &str) -> std::result::Result<ServerName<'static>, String> {
    let name = ServerName::try_from(host.to_owned());
    name.map_err(|_| format!("`{host}` is no name that a certificate could have"))
}

fn authorities(form: &UrlForm, file: Option<&Path>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let (added, from) = match file {
        Some(file) => (store.add_parsable_certificates(certificates(file)?).0, file.display().to_string()),
        None => {
            let found = rustls_native_certs::load_native_certs();
            (store.add_parsable_certificates(found.certs).0, "the system's store".to_owned())
        }
    };
    if added == 0 {
        return Err(refused(format!(
            "there is no authority in {from}: name one with `ca=/path/to/ca.pem` in the {} URL",
            form.store
        )));
    }
    Ok(store)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(refused(format!("there is no certificate in {}", file.display()))),
        Err(error) => Err(refused(format!("{} cannot be read as certificates ({error})", file.display()))),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| refused(format!("{} cannot be read as a private key ({error})", file.display())))
}

fn refused(detail: String) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, detail)
}
