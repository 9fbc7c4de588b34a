//! A TCP port that is reserved for a test.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket};

use crate::wait::{Bound, START_WITHIN};

/// A port of 127.0.0.1 that the system assigns to no other process while this value exists, whether a process listens
/// on it or not.
///
/// The value holds a socket that is bound and never listens. A listener with `SO_REUSEADDR`, which Redis and `Proxy`
/// (`crate::Proxy`) set, can repeatedly bind the same port by number. A process that requests any free port does not
/// get this one. So a server restarts on its port without a race, and connections are refused meanwhile.
#[derive(Debug)]
pub(crate) struct Port {
    address: SocketAddr,
    _reserved: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let socket = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("cannot bind a port of 127.0.0.1");
        let address = socket.local_addr().expect("a bound socket has an address");
        Self { address, _reserved: socket }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on the port. Needs a tokio runtime.
    ///
    /// A child process that is starting has a copy of every socket until its `exec`. So a closed listener may stay open
    /// for a moment longer.
    pub(crate) fn listen(&self) -> TcpListener {
        let bound = Bound::new(START_WITHIN);
        loop {
            match bind(self.address).and_then(|socket| socket.listen(1024)) {
                Ok(listener) => return listener,
                Err(error) if error.kind() == ErrorKind::AddrInUse => bound.check("the port is free again"),
                Err(error) => panic!("cannot listen on a reserved port: {error}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
