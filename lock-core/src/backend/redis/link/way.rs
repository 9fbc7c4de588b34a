//! The ways to reach a server.

use std::net::SocketAddr;
use std::path::Path;

use super::shared::Shared;
use crate::backend::redis::config::{Address, Endpoint};
use crate::backend::redis::error::Failure;
use crate::backend::remote::socket;
use crate::simulation;

/// A way to reach a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'a> {
    /// An address of a host. The server's certificate must contain the name of the host.
    Tcp(&'a str, SocketAddr),
    Unix(&'a Path),
    /// A server in a simulated network.
    Simulated(&'a Endpoint),
}

/// Returns the ways to reach the server at `place`, or at the socket of the configuration. Returns one way for each
/// address of a host name, because at some addresses there may be no working server.
pub(crate) async fn ways<'a, R>(
    server: &'a Shared<R>,
    place: Option<&'a Endpoint>,
) -> Result<Vec<Way<'a>>, Failure> {
    match (place, server.address()) {
        (Some(place), _) if simulation::is_on() => Ok(vec![Way::Simulated(place)]),
        (Some((host, port)), _) => {
            let found = socket::addresses(host, *port).await.map_err(|error| socket::unreachable(&error))?;
            Ok(found.into_iter().map(|address| Way::Tcp(host, address)).collect())
        }
        (None, Address::Unix(path)) => Ok(vec![Way::Unix(path)]),
        (None, Address::Tcp { .. } | Address::Sentinel(_) | Address::Cluster(_)) => Ok(Vec::new()),
    }
}
