//! Certificates for a server and its clients, signed by an authority of the test.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::directory::Directory;

/// PEM files: an authority, and the certificates that it has signed.
#[derive(Debug)]
pub struct Certificates {
    directory: Directory,
}

impl Certificates {
    /// Creates a certificate for a server with the names `hosts`, and one for a client.
    ///
    /// # Panics
    /// When the certificates cannot be created or written.
    #[must_use]
    pub fn new(hosts: &[&str]) -> Self {
        let made = Self { directory: Directory::new() };
        let mut params = CertificateParams::new(vec![]).expect("no names are good names");
        // OpenSSL treats a certificate with the name of its authority as self-signed.
        params.distinguished_name.push(DnType::CommonName, "authority of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate");
        made.write("ca.pem", &authority.pem());
        let issuer = Issuer::new(params, key);
        for (name, hosts) in [("server", hosts), ("client", &["client"][..])] {
            let hosts = hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>();
            let key = KeyPair::generate().expect("a key");
            let params = CertificateParams::new(hosts).expect("host names");
            let signed = params.signed_by(&key, &issuer).expect("a certificate");
            made.write(&format!("{name}.pem"), &signed.pem());
            made.write(&format!("{name}.key"), &key.serialize_pem());
        }
        made
    }

    /// Returns the path of `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path: &Path = &self.file(name);
        std::fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}
