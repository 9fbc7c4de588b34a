//! Dials the members of a cluster concurrently, and keeps the first connection to a member that can hold locks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::connection::Connection;
use super::http2::Http2;
use super::members::Members;
use crate::backend::etcd::error::{Failure, Reaction, unexpected};
use crate::backend::etcd::proto::{RangeRequest, RangeResponse, StatusRequest, StatusResponse};
use crate::backend::remote::{host_port, race, socket};
use crate::error::LockErrorKind;

/// A connection and the tasks that drive it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) connection: Arc<Connection>,
    /// One task, or two if the watches have a separate connection.
    pub(super) drivers: JoinSet<()>,
}

/// Dials every member, each a little after the previous one. The first member is random, so that the clients of a
/// cluster do not all use the same member.
pub(crate) async fn dial(members: &Members, limit: Duration) -> Result<Session, Failure> {
    let config = &members.config;
    let (count, first) = (config.members.len(), fastrand::usize(..config.members.len().max(1)));
    let attempts = (0..count).map(|number| async move {
        let member @ (host, port) = &config.members[(first + number) % count];
        let dialled = timeout(limit, dial_one(members, member)).await;
        let dialled = dialled.unwrap_or_else(|_| Err(out_of_time(limit)));
        // No request of a caller was sent yet, so no request can have been executed.
        dialled.map_err(|failure| failure.naming(host_port(host, *port)).before_any_request())
    });
    // Usually the first member answers within its head start.
    let outcome = race::first(attempts, socket::HEAD_START).await;
    outcome.unwrap_or_else(|| Err(unexpected("a member")))
}

fn out_of_time(limit: Duration) -> Failure {
    let text = format!(
        "no answer within {limit:?}; is the server up, is it etcd, does a firewall drop packets, and do most of the \
         members work?"
    );
    Failure::new(LockErrorKind::Unavailable, text)
}

/// Dials the addresses of one member. A name may have several addresses, and some of them may not lead to a working
/// server.
async fn dial_one(members: &Members, (host, port): &(String, u16)) -> Result<Session, Failure> {
    let addresses = socket::addresses(host, *port).await.map_err(|error| socket::unreachable(&error))?;
    let attempts = addresses.into_iter().map(|address| dial_at(members, (host, *port), address));
    let outcome = race::first(attempts, socket::HEAD_START).await;
    outcome.unwrap_or_else(|| Err(unexpected("an address")))
}

async fn dial_at(
    members: &Members,
    (host, port): (&str, u16),
    address: SocketAddr,
) -> Result<Session, Failure> {
    let mut drivers = JoinSet::new();
    let http2 = begin(members, host, address, &mut drivers).await?;
    // Over TLS, etcd allows 250 concurrent streams by default. Each key for which this process waits has a watch, which
    // needs one stream. Without a separate connection, many watches would block every other call. The separate
    // connection uses the same address, because the next address of the name may be another member.
    let watching = match members.tls.is_some() {
        true => begin(members, host, address, &mut drivers).await?,
        false => http2.clone(),
    };
    let origin = origin(host, port, members.tls.is_some()).ok_or_else(|| unexpected("an origin"))?;
    let connection = Connection::new(http2, watching, origin, members.config.user.clone());
    connection.log_in().await.map_err(at_first)?;
    match status(&connection).await {
        // Later versions of etcd report the status only to users with the role root. If the member cannot serve locks,
        // the read below fails.
        Err(failure) if failure.reaction == Reaction::Forbidden => {}
        answer => check(&answer.map_err(at_first)?)?,
    }
    // The status is not enough: a member may report a leader that no longer receives the member's messages. The read
    // also proves that the member's leader still led after this dial began. So a keep-alive over this connection may be
    // counted from a read over the previous connection.
    linearizable_read(&connection).await?;
    Ok(Session { connection: Arc::new(connection), drivers })
}

/// Returns the scheme and the authority of requests to a server.
pub(super) fn origin(host: &str, port: u16, tls: bool) -> Option<Uri> {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}", host_port(host, port)).parse().ok()
}

/// Connects to `address`, and begins HTTP/2 with the server under the name `host`. Adds a task to `drivers`.
pub(super) async fn begin(
    members: &Members,
    host: &str,
    address: SocketAddr,
    drivers: &mut JoinSet<()>,
) -> Result<Http2, Failure> {
    let unreachable = |error: io::Error| socket::unreachable(&error);
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    // Nagle's algorithm would delay a small packet until the previous packet is acknowledged.
    stream.set_nodelay(true).map_err(unreachable)?;
    let begun = match &members.tls {
        Some(tls) => Http2::begin(tls.wrap(stream, host).await?, drivers).await,
        None => Http2::begin(stream, drivers).await,
    };
    let no_http2 = |error: hyper::Error| {
        let text =
            format!("no HTTP/2 ({error}); is it etcd, and does it speak TLS on this port (`etcds://`)?");
        Failure::new(LockErrorKind::Unavailable, text)
    };
    begun.map_err(no_http2)
}

/// Adds possible causes to the failure of the first call. A server that requires a client certificate rejects the
/// connection only at this call, by closing the connection.
fn at_first(failure: Failure) -> Failure {
    if failure.is_permanent() {
        return failure;
    }
    let text = format!(
        "{}; is it etcd, does it speak TLS on this port (`etcds://`), and does it want a certificate of this client \
         (`cert` and `key`)?",
        failure.text()
    );
    Failure::new(LockErrorKind::Unavailable, text)
}

pub(super) async fn status(connection: &Connection) -> Result<StatusResponse, Failure> {
    connection.call("/etcdserverpb.Maintenance/Status", StatusRequest {}).await
}

/// Performs a linearizable read, which a majority must confirm. A member whose disk hangs, or that is cut off from the
/// majority, still answers a request for its [`status`]. Such a member does not answer a linearizable read.
pub(crate) async fn linearizable_read(connection: &Connection) -> Result<(), Failure> {
    let request = RangeRequest { key: b"k".to_vec(), count_only: true, ..RangeRequest::default() };
    let answer: Result<RangeResponse, _> = connection.call("/etcdserverpb.KV/Range", request).await;
    match answer {
        // etcd checks permissions after a majority has confirmed the read.
        Err(failure) if failure.reaction != Reaction::Forbidden => Err(failure),
        _ => Ok(()),
    }
}

/// Refuses a member that cannot hold locks.
pub(super) fn check(status: &StatusResponse) -> Result<(), Failure> {
    let unavailable = |text| Err(Failure::new(LockErrorKind::Unavailable, text));
    if status.is_learner {
        return unavailable("it is a learner, which answers no clients: promote it, or name another member");
    }
    if status.leader == 0 {
        return unavailable("it knows no leader: an election is under way, or most of the members are gone");
    }
    // Since version 3.3, etcd has conditions on a range. With such a condition, one transaction can acquire a lock of
    // any kind.
    if version(&status.version).is_some_and(|version| version < (3, 3)) {
        let text = format!("it is etcd {}, and locks need 3.3 or later", status.version);
        return Err(Failure::new(LockErrorKind::Unsupported, text));
    }
    Ok(())
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_cannot_hold_locks_is_refused() {
        let good = StatusResponse { version: "3.4.23".to_owned(), leader: 7, ..StatusResponse::default() };
        let table = [
            (good.clone(), None),
            (StatusResponse { version: "3.3.0-rc.1".to_owned(), ..good.clone() }, None),
            (StatusResponse { version: "4.0".to_owned(), ..good.clone() }, None),
            (StatusResponse { version: "3.2.32".to_owned(), ..good.clone() }, Some("locks need 3.3")),
            (StatusResponse { leader: 0, ..good.clone() }, Some("no leader")),
            (StatusResponse { is_learner: true, ..good }, Some("a learner")),
        ];
        for (status, refusal) in table {
            match (check(&status), refusal) {
                (Ok(()), None) => {}
                (Err(failure), Some(text)) => assert!(failure.text().contains(text), "{failure:?}"),
                (checked, _) => panic!("{status:?}: {checked:?}"),
            }
        }
    }
}
