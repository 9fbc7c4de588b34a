//! Requests the state of servers, each over a separate connection that is closed after the answer.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::Connection;
use super::dial::{begin, origin, status};
use super::members::Members;
use crate::backend::BoxFuture;
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
    let look_up = |server: &(String, u16)| -> BoxFuture<'static, Vec<Place>> {
        let (server, found) = (server.clone(), timeout(limit, addresses(server.clone())));
        Box::pin(async move {
            let found = found.await.unwrap_or_default();
            let alone = found.len() == 1;
            let name = |address: SocketAddr| match alone {
                true => host_port(&server.0, server.1),
                false => address.to_string(),
            };
            let place = |address| Place { host: server.0.clone(), address, name: name(address) };
            found.into_iter().map(place).collect()
        })
    };
    join_all(hosts.iter().map(look_up).collect()).await.into_iter().flatten().collect()
}

async fn addresses((host, port): (String, u16)) -> Vec<SocketAddr> {
    socket::addresses(&host, port).await.unwrap_or_default()
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
