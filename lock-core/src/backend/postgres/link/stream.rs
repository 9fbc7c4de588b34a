//! Adapts the encrypted stream to the driver.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use crate::backend::BoxFuture;
use crate::backend::postgres::error::Failure;
use crate::backend::remote::Tls;

/// Encrypts a connection after the server has agreed.
pub(super) struct Upgrade {
    pub(super) tls: Tls,
    pub(super) host: String,
}

/// A stream that is encrypted.
pub(super) struct Encrypted<S>(S);

/// The failure of a handshake, in a form that the driver passes on.
#[derive(Debug)]
pub(super) struct HandshakeError(Failure);

impl std::fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.text())
    }
}

impl std::error::Error for HandshakeError {}

/// Returns the failure of the handshake that caused an error of the driver.
pub(super) fn handshake_failure(error: &tokio_postgres::Error) -> Option<Failure> {
    let HandshakeError(failure) = std::error::Error::source(error)?.downcast_ref()?;
    Some(failure.clone())
}

/// The library's own connector does the handshake. This is a macro because the type of the connector's stream differs
/// in a build without TLS.
macro_rules! upgrade {
    ($stream:ty) => {
        impl TlsConnect<TcpStream> for Upgrade {
            type Stream = Encrypted<$stream>;
            type Error = HandshakeError;
            type Future = BoxFuture<'static, Result<Self::Stream, HandshakeError>>;

            fn connect(self, stream: TcpStream) -> Self::Future {
                Box::pin(async move {
                    let stream = self.tls.wrap(stream, &self.host).await.map_err(HandshakeError)?;
                    Ok(Encrypted(stream))
                })
            }
        }
    };
}

#[cfg(feature = "tls")]
upgrade!(tokio_rustls::client::TlsStream<TcpStream>);
#[cfg(not(feature = "tls"))]
upgrade!(TcpStream);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
