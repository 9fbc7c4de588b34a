//! Reads the hosts of the servers from a URL: from the part before its `/`, and from its options `host` and `port`.

use std::path::PathBuf;

use super::form::FORM;
use super::{Address, Host};
use crate::error::Result;

pub(super) const DEFAULT_PORT: u16 = 5432;

/// A host or the directory of a socket, with the port.
type Named = (Option<String>, Option<u16>);

/// The hosts and ports of a URL, without its options.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    authority: Vec<Named>,
    /// The value of the option `host`. The value replaces the hosts before the `/`.
    host: Option<String>,
    /// The value of the option `port`. The value replaces the ports before the `/`.
    port: Option<String>,
}

impl Hosts {
    /// Reads `host[:port],..`. A host may be the percent-encoded directory of a socket. The host may be missing if the
    /// option `host` contains it.
    pub(super) fn read(hosts: &str) -> Result<Self> {
        let authority = match hosts {
            "" => Vec::new(),
            hosts => hosts.split(',').map(named).collect::<Result<_>>()?,
        };
        Ok(Self { authority, ..Self::default() })
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let value = Some(FORM.decode(value)?);
        if name == "host" {
            self.host = value
        } else {
            self.port = value
        }
        Ok(())
    }

    /// Combines the hosts and ports into an address.
    pub(super) fn address(self) -> Result<Address> {
        let Self { authority, host, port } = self;
        let ports: Vec<Option<u16>> = match &port {
            Some(ports) => ports.split(',').map(|text| number(text).map(Some)).collect::<Result<_>>()?,
            None => authority.iter().map(|(_, port)| *port).collect(),
        };
        let hosts: Vec<Option<String>> = match host {
            Some(hosts) => {
                hosts.split(',').map(|host| Some(host.to_owned()).filter(|host| !host.is_empty())).collect()
            }
            None => authority.into_iter().map(|(host, _)| host).collect(),
        };
        if ports.len() > 1 && ports.len() != hosts.len() {
            return Err(FORM.invalid("the Postgres URL has another number of ports than of hosts"));
        }
        let port_of = |at: usize| ports.get(at).or(ports.first()).copied().flatten().unwrap_or(DEFAULT_PORT);
        let hosts = hosts.into_iter().enumerate().map(|(at, host)| match host {
            Some(host) => Ok(host_at(host, port_of(at))),
            None => Err(FORM.invalid("the Postgres URL has no host")),
        });
        let hosts = hosts.collect::<Result<Vec<_>>>()?;
        if hosts.is_empty() { Err(FORM.invalid("the Postgres URL has no host")) } else { Ok(Address(hosts)) }
    }
}

/// Reads `host[:port],..` from an option. Each entry must have a host.
pub(super) fn address(hosts: &str) -> Result<Address> {
    Hosts::read(hosts)?.address()
}

fn host_at(host: String, port: u16) -> Host {
    if host.starts_with('/') {
        Host::Unix { directory: PathBuf::from(host), port }
    } else {
        Host::Tcp { host, port }
    }
}

fn named(text: &str) -> Result<Named> {
    match text.strip_prefix(':') {
        // The text is only a port, such as `:5433`, because an option contains the host. A text with a second `:` is an
        // IPv6 address without brackets.
        Some(port) if !port.contains(':') => Ok((None, Some(number(port)?))),
        _ => {
            let (host, port) = FORM.host_and_port(text, 0)?;
            Ok((Some(FORM.decode(&host)?), Some(port).filter(|port| *port > 0)))
        }
    }
}

fn number(text: &str) -> Result<u16> {
    let wrong = || FORM.invalid("the port in the Postgres URL is not a number from 1 to 65535");
    text.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)
}
