//! Defines [`Identity`], the process that requests a lock.

use std::fmt;
use std::sync::OnceLock;

use super::field::Field;

/// The process that requests a lock: host name, process id and the name of the service.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Identity {
    pub(super) host: String,
    pub(super) pid: u32,
    pub(super) service: String,
    /// The three fields in the format of the store. The text is created when it is first needed.
    #[cfg_attr(feature = "serde", serde(skip))]
    encoded: OnceLock<String>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Identity");
        shown.field("host", &self.host).field("pid", &self.pid).field("service", &self.service).finish()
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        (&self.host, self.pid, &self.service) == (&other.host, other.pid, &other.service)
    }
}

impl Eq for Identity {}

impl Identity {
    /// Returns the identity of this process, with the service name `service`.
    #[must_use]
    pub fn of_this_process(service: &str) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self::new(host, std::process::id(), service.to_owned())
    }

    pub(super) fn new(host: String, pid: u32, service: String) -> Self {
        Self { host, pid, service, encoded: OnceLock::new() }
    }

    pub(super) fn encoded(&self) -> &str {
        self.encoded.get_or_init(|| {
            format!("host={} pid={} service={}", Field(&self.host), self.pid, Field(&self.service))
        })
    }

    /// Returns the name of the host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the name of the service, which is empty if the manager has no service name.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }
}
