//! Sets up TLS to the servers.

use std::fmt;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_client::{Connector, TlsOptions};

use super::error::Failure;
use crate::backend::remote::{Pem, Tls, TlsFiles, UrlForm, ring_by_default};
use crate::error::{LockError, LockErrorKind, Result};

/// A request that needs no session. Every server answers it, at least with a refusal.
const QUESTION: &[u8] = b"srvr";

/// The TLS configuration for the servers of one URL.
#[derive(Clone)]
pub(super) struct Secure {
    /// The configuration for the connections of the client library.
    options: TlsOptions,
    /// The connector for the store's own connections, with the same files.
    tls: Tls,
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secure").finish_non_exhaustive()
    }
}

impl Secure {
    /// Reads the TLS files. They are not read again later.
    pub(super) fn read(form: &UrlForm, files: &TlsFiles, hosts: &[(String, u16)]) -> Result<Self> {
        let tls = Tls::new(form, files, hosts.iter().map(|(host, _)| host.as_str()))?;
        // The client library panics if no crypto provider is set.
        ring_by_default();
        Ok(Self { options: options(files)?, tls })
    }

    /// Passes the files to the client library, which verifies the certificate chain and the name of every server, as
    /// [`Tls`] does.
    pub(super) fn apply(&self, connector: Connector) -> Connector {
        connector.with_tls(self.options.clone())
    }

    /// Returns the reason if this client refuses the server, or the server refuses this client. Returns `None` if
    /// neither refuses the other.
    pub(super) async fn look(&self, stream: TcpStream, host: &str) -> Option<Failure> {
        let mut stream = match self.tls.wrap(stream, host).await {
            Ok(stream) => stream,
            Err(failure) => return Some(failure),
        };
        // With TLS 1.3, a server that refuses the certificate of the client reports this only after the handshake. The
        // server may already have closed the connection, so a successful write proves nothing.
        let _ = stream.write_all(QUESTION).await;
        let error = stream.read(&mut [0]).await.err()?;
        let text = format!("TLS failed ({error}); {}", self.tls.advice_for_refused());
        Some(Failure::new(LockErrorKind::Unavailable, text).settled())
    }
}

fn options(files: &TlsFiles) -> Result<TlsOptions> {
    let refused = |error: zookeeper_client::Error| {
        let detail = format!("`ca`, `cert` or `key` of the ZooKeeper URL cannot be used ({error})");
        LockError::new(LockErrorKind::InvalidRequest, detail)
    };
    let pem = Pem::read(files)?;
    let options = TlsOptions::new().with_pem_ca(&pem.authorities).map_err(refused)?;
    match &pem.identity {
        Some((certificate, key)) => options.with_pem_identity(certificate, key).map_err(refused),
        None => Ok(options),
    }
}
