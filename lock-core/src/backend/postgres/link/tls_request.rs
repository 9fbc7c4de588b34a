//! Requests TLS from a server before the handshake.
//!
//! The driver could send this request too, but would report every refusal as "no TLS". A pooler without free
//! connections replies with an error, and the user must see this error.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::backend::postgres::error::Failure;
use crate::error::LockErrorKind;

/// The request for TLS in the protocol: its length and its number.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// The longest error message that is read.
const LONGEST: usize = 8 * 1024;

/// Requests TLS. Returns `Ok` when the server has agreed and expects the handshake.
pub(super) async fn request_tls(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Result<(), Failure> {
    // A peer that refuses connections may already have closed this connection. The peer's error message can still be
    // read.
    let _ = stream.write_all(&REQUEST).await;
    match stream.read_u8().await.map_err(|error| lost(&error))? {
        b'S' => Ok(()),
        b'N' => {
            let text = "the server has no TLS: turn it on there (`ssl`), or write `sslmode=disable`";
            Err(Failure::new(LockErrorKind::Unavailable, text).settled())
        }
        b'E' => Err(read_refusal(stream).await.unwrap_or_else(|error| lost(&error))),
        _ => {
            let text = "the peer does not speak the protocol of Postgres; is the port right?";
            Err(Failure::new(LockErrorKind::Unavailable, text).settled())
        }
    }
}

fn lost(error: &io::Error) -> Failure {
    let text = format!("the connection was lost before the TLS handshake ({error})");
    Failure::new(LockErrorKind::Unavailable, text)
}

/// Reads an error message of the protocol, without its first byte.
async fn read_refusal(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Failure> {
    let length = usize::try_from(stream.read_u32().await?).unwrap_or(LONGEST);
    let mut fields = vec![0; length.saturating_sub(4).min(LONGEST)];
    stream.read_exact(&mut fields).await?;
    let field = |kind: u8| {
        let text = fields.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[kind]));
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    };
    Ok(Failure::of_answer(true, &field(b'C'), &field(b'M')))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(answer: &[u8]) -> Result<(), Failure> {
        let (mut here, mut there) = tokio::io::duplex(64);
        there.write_all(answer).await.expect("it fits");
        let asked = request_tls(&mut here);
        let answered = async {
            let mut request = [0; REQUEST.len()];
            there.read_exact(&mut request).await.expect("the request");
            assert_eq!(request, REQUEST);
            drop(there);
        };
        tokio::join!(asked, answered).0
    }

    #[tokio::test]
    async fn the_answer_of_the_peer_is_reported() {
        asked(b"S").await.expect("the server agrees");
        let full = b"E\0\0\0\x28SFATAL\0C53300\0Mno more connections\0\0";
        for (answer, expected, settled) in [
            (&b"N"[..], "no TLS", true),
            (b"HTTP/1.1 400", "protocol of Postgres", true),
            (full, "53300: no more connections", false),
            (b"E\0\0", "connection was lost", false),
            (b"", "connection was lost", false),
        ] {
            let failure = asked(answer).await.expect_err(expected);
            assert!(failure.text().contains(expected), "{failure:?}");
            assert_eq!(failure.is_settled(), settled, "{failure:?}");
        }
    }
}
