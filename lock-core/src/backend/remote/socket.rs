//! Opens the TCP connections to stores, and sets the options of these connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::{Failure, race};
use crate::error::LockErrorKind;

/// Connects to one address of a host.
pub(crate) async fn connect_to<R: Default>(address: SocketAddr) -> Result<TcpStream, Failure<R>> {
    let stream = TcpStream::connect(address).await.map_err(|error| unreachable(&error))?;
    // Nagle's algorithm would delay a small packet until the previous packet is acknowledged.
    stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
    // A dropped connection must not deliver a request after the last repetition of the release that undoes the request.
    // See `UNSENT`.
    give_up_unsent(&stream).map_err(|error| unreachable(&error))?;
    Ok(stream)
}

/// How long one address of a host is tried before the next address is also tried.
pub(crate) const HEAD_START: Duration = Duration::from_millis(200);

/// Returns the addresses of a host. A name may have several addresses: one address may not answer, and another may be a
/// replica.
pub(crate) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(feature = "testkit")]
    if let Some(addresses) = crate::testkit::names::addresses_of(host) {
        return Ok(addresses);
    }
    let mut addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    addresses.dedup();
    Ok(addresses)
}

/// Connects to the first address of a host that accepts the connection.
pub(crate) async fn connect<R: Default + Send>(host: &str, port: u16) -> Result<TcpStream, Failure<R>> {
    let addresses = addresses(host, port).await.map_err(|error| unreachable(&error))?;
    let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let outcome = race::first(addresses.into_iter().map(connect_to), HEAD_START).await;
    outcome.unwrap_or_else(|| Err(unreachable(&no_address())))
}

/// How long the kernel retransmits bytes that the server does not acknowledge. Without this limit the kernel would keep
/// the bytes of a dropped connection for minutes. A request among these bytes could then cause a grant without an
/// owner. The limit is shorter than the time from a request to the last repetition of the release that undoes the
/// request.
#[cfg_attr(
    not(any(target_os = "linux", feature = "postgres")),
    allow(dead_code, reason = "only Linux has the option")
)]
pub(crate) const UNSENT: Duration = Duration::from_secs(5);

#[cfg(target_os = "linux")]
fn give_up_unsent(stream: &TcpStream) -> io::Result<()> {
    let millis = u32::try_from(UNSENT.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(stream, millis).map_err(Into::into)
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "as where there is such an option")]
fn give_up_unsent(_stream: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// Returns the failure of a server that could not be reached.
pub(crate) fn unreachable<R: Default>(error: &io::Error) -> Failure<R> {
    // The standard library has no error kind for an unknown host name, but the text of the error begins like this.
    let unknown_name = error.to_string().starts_with("failed to lookup address");
    let advice = if unknown_name { "is the host name right?" } else { "is the server up?" };
    Failure::new(LockErrorKind::Unavailable, format!("cannot connect ({error}); {advice}"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;
    use crate::clock::Clock;

    /// A name may have several addresses, as `localhost` does.
    #[cfg(feature = "testkit")]
    #[tokio::test]
    async fn an_address_that_refuses_costs_no_time() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let there = listener.local_addr().expect("bound");
        let gone = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let nobody = gone.local_addr().expect("bound");
        drop(gone);
        let connects = async |addresses: &[SocketAddr]| {
            crate::testkit::names::lead("several-addresses.test", addresses);
            let connects = connect::<()>("several-addresses.test", 1);
            timeout(HEAD_START, connects).await.expect("at once")
        };
        let stream = connects(&[nobody, nobody, nobody, there]).await.expect("it listens");
        assert_eq!(stream.peer_addr().expect("connected"), there);
        for (addresses, text) in [(&[nobody, nobody][..], "refused"), (&[], "the name has no address")] {
            let failure = connects(addresses).await.expect_err("nobody listens");
            assert!(failure.text().contains(text), "{failure:?}");
        }
    }

    #[tokio::test]
    async fn the_kernel_forgets_what_was_not_taken_before_the_last_repeat_of_a_release() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        give_up_unsent(&stream).expect("Linux has the option");
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&stream).expect("Linux has it"), 5_000);
    }

    /// A peer that reads nothing accepts only the bytes that fit into its kernel's buffers, and never closes the
    /// connection.
    #[tokio::test]
    async fn a_connection_to_a_peer_that_reads_nothing_ends_and_the_rest_never_arrives() {
        const PATIENCE: Duration = Duration::from_secs(30);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (mut peer, _) = listener.accept().await.expect("it connects");
        give_up_unsent(&stream).expect("Linux has the option");
        let (chunk, mut sent) = ([0; 65_536], 0);
        let (began, ended) = loop {
            let began = Clock::Suspend.now();
            match timeout(PATIENCE, stream.write(&chunk)).await.expect("the kernel gives up") {
                Ok(taken) => sent += taken,
                Err(error) => break (began, error),
            }
        };
        let stalled = Clock::Suspend.now().since(began);
        assert_eq!(ended.kind(), std::io::ErrorKind::TimedOut, "{ended}");
        assert!(stalled > UNSENT / 2, "a server that is slow is waited for: {stalled:?}");
        drop(stream);
        let (mut buffer, mut arrived) = (vec![0; 65_536], 0);
        while let Ok(taken @ 1..) = timeout(PATIENCE, peer.read(&mut buffer)).await.expect("it ends") {
            arrived += taken;
        }
        assert!(arrived < sent, "all of the {sent} bytes arrived");
    }
}
