//! What every TCP connection to a store needs.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::Failure;
use crate::error::LockErrorKind;

/// Connects to a host.
pub(crate) async fn connect<R: Default>(host: &str, port: u16) -> Result<TcpStream, Failure<R>> {
    let stream = connect_to_any(host, port).await.map_err(|error| unreachable(&error))?;
    // Nagle's algorithm would hold a small packet back until the one before it is acknowledged.
    stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
    // See `UNSENT`: a dropped connection must not deliver a request after the last release that would undo it.
    give_up_unsent(&stream).map_err(|error| unreachable(&error))?;
    Ok(stream)
}

/// The head start of one address of a host before the next is tried too.
const HEAD_START: Duration = Duration::from_millis(200);

/// Connects to any address of a host: each a little after the one before, since a dead one may answer nothing at all.
pub(crate) async fn connect_to_any(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    addresses.dedup();
    if let [only] = addresses[..] {
        return TcpStream::connect(only).await;
    }
    // Dropped with this function, which ends the other attempts.
    let mut attempts = JoinSet::new();
    for (number, address) in (0..).zip(addresses) {
        attempts.spawn(async move {
            sleep(HEAD_START * number).await;
            TcpStream::connect(address).await
        });
    }
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_) => {}
        }
    }
    Err(failed)
}

/// How long the kernel keeps retransmitting bytes that the server does not acknowledge. Without the limit it would keep
/// the bytes of a dropped connection for minutes, and a grant that they cause would have no owner. The limit is shorter
/// than the time from a request to the last repeat of the release that undoes it.
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
    // The standard library has no error kind for an unknown host name; its text begins like this.
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

    #[tokio::test]
    async fn the_kernel_forgets_what_was_not_taken_before_the_last_repeat_of_a_release() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        give_up_unsent(&stream).expect("Linux has the option");
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&stream).expect("Linux has it"), 5_000);
    }

    /// A peer that reads nothing accepts what fits into its kernel's buffers, and never closes the connection.
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
