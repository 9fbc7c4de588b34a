//! The members of a cluster, and the state that their connections share.

use crate::backend::etcd::config::{Config, FORM};
use crate::backend::remote::{Listeners, Tls};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) config: Config,
    pub(super) tls: Option<Tls>,
    pub(crate) listeners: Listeners,
}

impl Members {
    /// Reads the TLS files of the configuration.
    pub(crate) fn new(config: Config) -> Result<Self> {
        let hosts = config.members.iter().map(|(host, _)| host.as_str());
        let tls = config.tls.as_ref().map(|files| Tls::new(&FORM, files, hosts)).transpose()?;
        // etcd speaks HTTP/2 only with clients that request it in the handshake.
        let tls = tls.map(|tls| tls.with_protocol(b"h2"));
        Ok(Self { config, tls, listeners: Listeners::default() })
    }
}
