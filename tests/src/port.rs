//! A TCP port that stays ours.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// A port of 127.0.0.1 that no one else is given while this value lives, whether or not somebody listens on it.
///
/// It holds a socket that is bound and never listens. A listener with `SO_REUSEADDR`, which Redis and `Proxy`
/// (`crate::Proxy`) set, can bind the same port by number, again and again; a process that asks the system for any
/// free port is not given it. So a server restarts on its port with no race, and connecting meanwhile is refused.
#[derive(Debug)]
pub(crate) struct Port {
    address: SocketAddr,
    _reserved: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let socket = bind(SocketAddr::from(([127, 0, 0, 1], 0)));
        let address = socket.local_addr().expect("a bound socket has an address");
        Self { address, _reserved: socket }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Listens on the port; needs a tokio runtime.
    pub(crate) fn listen(&self) -> TcpListener {
        bind(self.address).listen(1024).expect("cannot listen on a reserved port")
    }
}

fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("cannot make a TCP socket");
    socket.set_reuseaddr(true).expect("cannot set SO_REUSEADDR");
    socket.bind(address).expect("cannot bind a port of 127.0.0.1");
    socket
}
