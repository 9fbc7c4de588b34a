//! TLS and SASL of a ZooKeeper server.

use std::fmt::Write as _;
use std::path::Path;

use crate::certificates::Certificates;

/// The credentials that a server requires from its clients. The files are in the working directory of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Security {
    /// The files of the server, and whether clients must show a certificate.
    tls: Option<([String; 2], bool)>,
    /// The users of SASL, each with a password.
    users: Option<String>,
}

impl Security {
    /// The property that names the file with the users.
    pub(crate) const PROPERTY: &'static str = "java.security.auth.login.config=jaas.conf";

    pub(crate) fn set_tls(&mut self, certificates: &Certificates, both_sides: bool) {
        let read = |name| std::fs::read_to_string(certificates.file(name)).expect("a certificate");
        // ZooKeeper requires the key and the certificate in one file.
        self.tls = Some(([read("server.key") + &read("server.pem"), read("ca.pem")], both_sides));
    }

    pub(crate) fn set_users(&mut self, users: &[(&str, &str)]) {
        let mut text = "Server {\n    org.apache.zookeeper.server.auth.DigestLoginModule required".to_owned();
        for (user, password) in users {
            let _ = write!(text, "\n    user_{user}=\"{password}\"");
        }
        self.users = Some(text + ";\n};\n");
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Writes the files of the credentials.
    pub(crate) fn write(&self, directory: &Path) {
        let write = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).expect("a file in the directory of the server");
        };
        if let Some(([identity, authority], _)) = &self.tls {
            write("identity.pem", identity);
            write("trusted.pem", authority);
        }
        if let Some(users) = &self.users {
            write("jaas.conf", users);
        }
    }

    /// Returns the lines of the configuration. `port` is the TLS port.
    pub(crate) fn settings(&self, directory: &Path, port: u16) -> String {
        let mut lines = String::new();
        if let Some((_, both_sides)) = &self.tls {
            let (at, asked) = (directory.display(), if *both_sides { "need" } else { "none" });
            let _ = write!(
                lines,
                "secureClientPort={port}\nsecureClientPortAddress=127.0.0.1\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nssl.clientAuth={asked}\n\
                 ssl.keyStore.location={at}/identity.pem\nssl.keyStore.type=PEM\n\
                 ssl.trustStore.location={at}/trusted.pem\nssl.trustStore.type=PEM\n"
            );
        }
        if self.users.is_some() {
            lines += "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n";
        }
        lines
    }
}
