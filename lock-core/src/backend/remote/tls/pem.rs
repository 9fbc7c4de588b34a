//! The TLS files of a URL as text, for a client library that makes its TLS connections itself.

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsFiles;
use super::connector::{certificates, private_key, trusted};
use crate::error::Result;

/// The authorities and the client certificate of a URL, as PEM.
///
/// The text is made from the parsed certificates and the key. So the client library receives text of the same form,
/// whether the certificates come from files or from the system. Other content of the files is left out.
pub(crate) struct Pem {
    pub(crate) authorities: String,
    /// The certificate of this client, and its private key.
    pub(crate) identity: Option<(String, String)>,
}

impl Pem {
    /// Reads the files, and converts their content to PEM.
    pub(crate) fn read(files: &TlsFiles) -> Result<Self> {
        let all = |found: Vec<CertificateDer<'_>>| -> String {
            found.iter().map(|der| armour("CERTIFICATE", der)).collect()
        };
        let identity = match (&files.certificate, &files.key) {
            (Some(certificate), Some(key)) => {
                let key = private_key(key)?;
                let kind = match key {
                    PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
                    PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
                    _ => "PRIVATE KEY",
                };
                Some((all(certificates(certificate)?), armour(kind, key.secret_der())))
            }
            _ => None,
        };
        Ok(Self { authorities: all(trusted(files.authorities.as_deref())?), identity })
    }
}

/// Makes ring the crypto provider of the process, if the process has none yet.
///
/// A client library that sets no provider uses the provider of the process. The library panics if two providers are
/// linked and none is set. A provider that the program has already set is kept.
pub(crate) fn ring_by_default() {
    let _ = ring::default_provider().install_default();
}

/// Returns bytes as PEM text.
fn armour(kind: &str, bytes: &[u8]) -> String {
    const LINE: usize = 64;
    let text = base64(bytes);
    let mut armoured = format!("-----BEGIN {kind}-----\n");
    for line in text.as_bytes().chunks(LINE) {
        armoured.extend(line.iter().copied().map(char::from));
        armoured.push('\n');
    }
    armoured + &format!("-----END {kind}-----\n")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| usize::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let padded = digit > group.len();
            text.push(if padded { '=' } else { char::from(DIGITS[bits >> (18 - 6 * digit) & 63]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::pki_types::pem::PemObject;

    use super::*;

    /// Checks the examples of RFC 4648.
    #[test]
    fn base64_is_that_of_everybody() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for length in [1, 47, 48, 49, 1000] {
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            let read = CertificateDer::from_pem_slice(armour("CERTIFICATE", &bytes).as_bytes());
            assert_eq!(read.expect("PEM").as_ref(), bytes);
        }
    }
}
