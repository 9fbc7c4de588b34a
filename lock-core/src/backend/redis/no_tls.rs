//! The twin of `tls.rs` in a build without TLS, where the URL that asks for it is refused.

use std::convert::Infallible;

use tokio::net::TcpStream;

use super::config::TlsFiles;
use super::error::Failure;
use crate::error::{LockError, LockErrorKind, Result};

/// There is none.
#[derive(Clone, Debug)]
pub(super) struct Tls(Infallible);

impl Tls {
    pub(super) fn new<'a>(_files: &TlsFiles, _hosts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        Err(LockError::new(LockErrorKind::Unsupported, "this build has no TLS for Redis"))
    }

    #[allow(clippy::unused_async, reason = "the twin has something to wait for")]
    pub(super) async fn wrap(
        &self,
        _stream: TcpStream,
        _host: &str,
    ) -> std::result::Result<TcpStream, Failure> {
        match self.0 {}
    }
}
