//! Requests the state of servers, each over a separate connection that is closed after the answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::Connection;
use super::dial::{begin, origin, status};
use super::members::Members;
use crate::backend::etcd::error::{Failure, unexpected};
use crate::backend::etcd::proto::StatusResponse;
use crate::backend::remote::{host_port, join_all, socket};

#[derive(Clone, Debug)]
pub(crate) struct Place {
    host: String,
    address: SocketAddr,
    /// The text that stands for this address in the findings of `doctor`.
    name: String,
}

/// Writes `host:port`, or the IP address if the host has several addresses.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Resolves host names, and returns all their addresses. A name that is not resolved within `limit` contributes no
/// address.
pub(crate) async fn places(hosts: &[(String, u16)], limit: Duration) -> Vec<Place> {
    let look_ups = hosts.iter().map(|(host, port)| async move {
        let found = timeout(limit, socket::addresses(host, *port)).await;
        let found = found.ok().and_then(io::Result::ok).unwrap_or_default();
        let alone = found.len() == 1;
        let name = |address: SocketAddr| match alone {
            true => host_port(host, *port),
            false => address.to_string(),
        };
        let place = |address| Place { host: host.clone(), address, name: name(address) };
        found.into_iter().map(place).collect::<Vec<_>>()
    });
    join_all(look_ups).await.into_iter().flatten().collect()
}

/// Requests the state of a server. The user of the URL logs in only if `logs_in`, because the password must be sent
/// only to servers that the URL names.
pub(crate) async fn state(
    members: &Members,
    place: &Place,
    logs_in: bool,
    limit: Duration,
) -> Result<StatusResponse, Failure> {
    let asking = async {
        let mut drivers = JoinSet::new();
        let http2 = begin(members, &place.host, place.address, &mut drivers).await?;
        let origin = origin(&place.host, place.address.port(), members.tls.is_some());
        let origin = origin.ok_or_else(|| unexpected("an origin"))?;
        let user = members.config.user.clone().filter(|_| logs_in);
        let connection = Connection::new(http2.clone(), http2, origin, user);
        connection.log_in().await?;
        status(&connection).await
    };
    timeout(limit, asking).await.unwrap_or_else(|_| Err(Failure::no_answer(limit)))
}
